"""What the servers of RabbitMQ and Redis that tests start have in common."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable

START_SECONDS = 60.0
LOOK_AGAIN = 0.05


def installed(program: str, package: str, setting: str) -> str:
    """The path of the program; on Debian its package is installed first where that is allowed."""
    # Debian's program of this name in the usual places wants to be another user.
    path = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.environ.get("PATH", ""), "/usr/sbin"))
    if not shutil.which(program, path=path) and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        subprocess.run(command, check=True, capture_output=True, env=quiet)
    result = shutil.which(program, path=path)
    assert result, f"these tests need {program}; install it, or name a server in {setting}"
    return result


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until(ready: Callable[[], bool], process: "subprocess.Popen[bytes]", what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        assert process.poll() is None, f"{what} ended at its start"
        assert time.monotonic() < deadline, f"{what} does not answer"
        time.sleep(LOOK_AGAIN)
