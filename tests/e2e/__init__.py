"""Real Airflow as processes, and the local cluster as Kubernetes."""
