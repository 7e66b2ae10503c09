"""Values and decisions. Pure: no I/O, clock, framework or environment."""
