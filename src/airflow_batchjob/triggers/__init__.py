"""Supervisors in the triggerer."""
