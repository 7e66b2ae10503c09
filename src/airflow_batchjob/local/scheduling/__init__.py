"""The scheduler: which node a pod goes to. The choice is pure; the runtime binds."""
