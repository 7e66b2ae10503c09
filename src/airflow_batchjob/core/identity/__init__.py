"""One task instance, one Job at a time: names, marks, generations, and what is kept."""
