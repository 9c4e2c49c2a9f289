"""A port for a server that a test starts, and perhaps ends and starts again."""

import random
import socket
from typing import Final

FIRST: Final = 10_000
LAST: Final = 32_000
"""Below the range from which the system gives ports to connections by itself. From that range, one
of them may take the port of a server while it is down: also a program that tries to connect to it."""


def free_port() -> int:
    """By chance, as processes of tests look for one at the same time, and not by the seed that the
    tests of all of them share."""
    while True:
        port = random.SystemRandom().randrange(FIRST, LAST)
        with socket.socket() as probe:
            # As servers do: a connection of before that is being forgotten is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
