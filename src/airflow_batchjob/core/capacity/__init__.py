"""Spot and on-demand: where a Job runs, what it lost, and the way out."""
