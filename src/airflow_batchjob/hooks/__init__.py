"""From an Airflow connection to a cluster."""
