"""Bring a Job about and see it through: the same code in worker, triggerer and command line."""
