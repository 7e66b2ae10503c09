"""Real Kubernetes for the tests: built from public Go modules, started, waited for, stopped."""
