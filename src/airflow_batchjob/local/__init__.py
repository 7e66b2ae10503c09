"""A cluster on one machine: a Kubernetes API whose containers are processes. Shares no code with the rest."""
