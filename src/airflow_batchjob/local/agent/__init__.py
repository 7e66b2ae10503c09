"""The node agent: what a kubelet does, with processes in place of containers."""
