"""What Kubernetes would refuse, found before it is asked: a Job's fields, and missing rights."""
