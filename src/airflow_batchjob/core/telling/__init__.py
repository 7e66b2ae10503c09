"""What people read while a Job runs: progress, notes, whose logs."""
