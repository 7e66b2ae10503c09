"""The machines of the local cluster: declared, shown as nodes, lost and brought back."""
