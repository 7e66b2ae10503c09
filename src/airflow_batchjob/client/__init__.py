"""The only code that talks to a Job API. Asynchronous; runs without Airflow."""
