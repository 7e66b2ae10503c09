"""Tasks that run Jobs."""
