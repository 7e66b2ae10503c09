"""Tasks that wait for Jobs that someone else runs."""
