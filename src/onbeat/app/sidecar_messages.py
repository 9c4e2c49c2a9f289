"""The messages between a worker and its sidecar. Few imports, to keep the sidecar small."""

import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

MESSAGE_BYTES_MAX: Final = 262_144  # enough for a row with the names of thousands of tasks


class SidecarStart(NamedTuple):
    """The first message: the store, the worker's process id, and its import paths."""

    url: str = ""
    pid: int = 0
    paths: Sequence[str] = ()


class LifeSign(NamedTuple):
    """A sign of life: a row, as JSON, and for how many seconds it is valid."""

    id: str
    seconds: float
    row: str


class SidecarReport(NamedTuple):
    """A report: the last beat, and the seconds of silence before it; or an error."""

    beat: int
    silence: float
    error: str = ""


class Silence:
    """The worker's last signs of life, and the time since then."""

    def __init__(self) -> None:
        self.last_sign: dict[str, LifeSign] = {}
        self.heard_at = time.monotonic()

    def hear(self, message: bytes) -> None:
        answer = LifeSign(*json.loads(message))
        self.last_sign[answer.id] = answer
        self.heard_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.heard_at

    @property
    def patience(self) -> float | None:
        """How long to wait for the next sign; None before the first one."""
        return min((answer.seconds for answer in self.last_sign.values()), default=None)
