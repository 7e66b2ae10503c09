"""The Kubernetes API as functions: a request in, a response or a stream of bytes out. No sockets."""
