"""What is asked for, and the batch/v1 object that asks Kubernetes the same."""
