"""The ports of the demo: those of the run before, so that its waiting calls find their receiver."""

import json
import socket
from pathlib import Path

WISHED = (8080, 8081, 8082)
"""Of the service, and of the two servers that it calls."""


def ports(file: Path) -> tuple[int, int, int]:
    """Three free ports, which the file remembers."""
    known = json.loads(file.read_text()) if file.exists() else WISHED
    service, receiver, shop = (free_port(wished) for wished in known)
    file.write_text(json.dumps([service, receiver, shop]))
    return service, receiver, shop


def free_port(wished: int) -> int:
    """The wished port, or any other when that is in use."""
    for port in (wished, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise OSError("there is no free port")
