"""The Job controller: rules that are pure, and a runtime that applies them to the store."""
