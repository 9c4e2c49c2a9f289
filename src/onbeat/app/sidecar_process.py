"""The sidecar program: sends heartbeats for a worker whose interpreter is held.

While idle it waits for signs of life and has imported next to nothing. When none has come for a
while, and the kernel shows the worker's process neither ended nor stopped, it sends heartbeats.
"""

import json
import os
import signal
import socket
import sys

from onbeat.app.sidecar_messages import MESSAGE_BYTES_MAX, SidecarStart, Silence


def main(fd: int) -> None:
    """Run until the worker closes its socket, or this process has another parent."""
    # Stop signals are for the worker, whose heartbeats continue until it has drained.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=fd) as link:
        order = SidecarStart(*json.loads(link.recv(MESSAGE_BYTES_MAX) or "[]"))
        sys.path += order.paths
        silence = Silence()
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


def run_heartbeats(order: SidecarStart, silence: Silence, link: socket.socket) -> None:
    """Send heartbeats while they are needed; a sign of life ends this."""
    from onbeat.app.sidecar_heartbeat import SidecarHeartbeat  # noqa: PLC0415  loaded on demand

    SidecarHeartbeat(order, silence, link).run()
