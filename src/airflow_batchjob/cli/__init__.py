"""The command line. Works without Airflow."""
