"""One started command and its two outputs."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from airflow_batchjob.local.launcher import mounts, processes
from airflow_batchjob.local.launcher.output import Output
from airflow_batchjob.local.launcher.protocol import Start


class StartRefused(Exception):  # noqa: N818  nothing broke: the command cannot be started
    """The command cannot be started; the message is for the container's status."""


@dataclass(slots=True)
class Container:
    """A command that runs."""

    id: str
    pid: int
    log: int
    outputs: tuple[Output, Output]
    memory_bytes: int | None
    over_limit: bool = False

    @classmethod
    def start(cls, request: Start) -> Container:
        """Start what is asked for.

        Raises:
            StartRefused: It cannot be started.
        """
        env = {**request.env, processes.MARK: request.id}
        try:
            log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise StartRefused(f"cannot write the log: {error}") from error
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        try:
            start = _start_with_mounts if request.mounts else _start
            pid = start(request, env, out_write, err_write)
        except BaseException:
            for descriptor in (log, out_read, err_read):
                os.close(descriptor)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        os.set_blocking(out_read, False)
        os.set_blocking(err_read, False)
        outputs = (Output(out_read, log, "stdout"), Output(err_read, log, "stderr"))
        return cls(request.id, pid, log, outputs, request.memory_bytes)

    def close(self) -> None:
        """Take what is left of the outputs and close the log."""
        for output in self.outputs:
            output.drain()
        os.close(self.log)


def _start(request: Start, env: dict[str, str], out: int, err: int) -> int:
    try:
        path = processes.find_executable(request.argv[0], env, request.folder)
        # Nothing else runs in this process, so its own folder can be lent to the command.
        os.chdir(request.folder)
        return processes.spawn(path, request.argv, env, out, err)
    except OSError as error:
        raise StartRefused(_words(error, request)) from error


def _start_with_mounts(request: Start, env: dict[str, str], out: int, err: int) -> int:
    """Fork, build the container's own view of the file system there, then become the command."""
    told, tell = os.pipe()  # closed by a successful exec, else it brings the reason
    pid = os.fork()
    if pid == 0:
        _become(request, env, out, err, tell)
    os.close(tell)
    with os.fdopen(told, encoding="utf-8") as reason:
        message = reason.read()
    if message:
        os.waitpid(pid, 0)
        raise StartRefused(message)
    return pid


def _become(request: Start, env: dict[str, str], out: int, err: int, tell: int) -> None:
    try:
        os.setpgid(0, 0)
        mounts.enter(request.mounts, request.log + ".view")
        os.chdir(request.folder)
        path = processes.find_executable(request.argv[0], env, request.folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for number in processes.RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.execve(path, request.argv, env)  # noqa: S606  running commands is what this is for
    except (OSError, mounts.MountError) as error:
        os.write(tell, _words(error, request).encode())
    finally:
        os._exit(127)


def _words(error: Exception, request: Start) -> str:
    if isinstance(error, OSError) and error.filename == request.folder:
        return f'chdir to cwd ("{request.folder}") failed: {os.strerror(error.errno or 0)}'
    if isinstance(error, OSError) and error.errno:
        return f'exec: "{request.argv[0]}": {os.strerror(error.errno)}'
    return str(error)
