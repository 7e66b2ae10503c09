"""What was seen, what was asked and now: decisions and verdicts as values."""
