"""pytest fixtures for DAG authors: a local cluster per session."""
