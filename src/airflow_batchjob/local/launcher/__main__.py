"""Entry: ``python -m airflow_batchjob.local.launcher FD``, with a connected socket as that descriptor."""

import socket
import sys

from airflow_batchjob.local.launcher.loop import Launcher

if __name__ == "__main__":
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()
