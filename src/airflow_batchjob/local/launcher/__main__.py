"""Entry: ``python -m airflow_batchjob.local.launcher FD``, with a connected socket as that descriptor."""

import os
import socket
import sys

from airflow_batchjob.local.launcher.loop import Launcher

if __name__ == "__main__":
    descriptor = int(sys.argv[1])
    # A command that had it too would keep the connection open after this process is gone.
    os.set_inheritable(descriptor, False)  # noqa: FBT003
    Launcher(socket.socket(fileno=descriptor)).run()
