"""A machine's share for each container of a pod."""
