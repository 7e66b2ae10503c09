"""A process of its own that starts the containers' commands, and ends them all when the server is gone.

It is one process for the whole cluster, small and without threads. That makes forking cheap, keeps
the server's event loop free of it, and gives every command a parent that outlives a crash of the
server by exactly as long as it takes to kill what still runs.
"""
