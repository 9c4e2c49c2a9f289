"""The sidecar program: sends heartbeats for a worker whose interpreter is held.

While idle it waits for signs of life and has imported next to nothing, unless its worker's lease is
too short to import on demand. When no sign has come for a while, and the kernel shows the worker's
process neither ended nor stopped, it sends heartbeats.
"""

import json
import os
import signal
import socket
import sys
from typing import Final

from onbeat.app.sidecar_messages import MESSAGE_BYTES_MAX, SidecarStart, Silence

PATIENCE_MIN: Final = 2.0
"""Seconds of silence from which on a busy machine loads a driver well before the lease ends: three
quarters of the lease are left for it."""


def main(fd: int) -> None:
    """Run until the worker closes its socket, or this process has another parent."""
    # Stop signals are for the worker, whose heartbeats continue until it has drained.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=fd) as link:
        order = SidecarStart(*json.loads(link.recv(MESSAGE_BYTES_MAX) or "[]"))
        sys.path += order.paths
        silence = Silence()
        is_loaded = False
        while os.getppid() == order.pid:
            link.settimeout(silence.patience)
            try:
                message = link.recv(MESSAGE_BYTES_MAX)
            except TimeoutError:
                run_heartbeats(order, silence, link)
                continue
            if not message:
                return
            silence.hear(message)
            if not is_loaded and (silence.patience or 0.0) < PATIENCE_MIN:
                load(order)
                is_loaded = True


def load(order: SidecarStart) -> None:
    """Import what heartbeats on this store need. Takes some 30 MB of memory."""
    from onbeat.app.sidecar_heartbeat import load_driver  # noqa: PLC0415  loaded on demand

    load_driver(order.url)


def run_heartbeats(order: SidecarStart, silence: Silence, link: socket.socket) -> None:
    """Send heartbeats while they are needed; a sign of life ends this."""
    from onbeat.app.sidecar_heartbeat import SidecarHeartbeat  # noqa: PLC0415  loaded on demand

    SidecarHeartbeat(order, silence, link).run()
