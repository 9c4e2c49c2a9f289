"""What this machine's kernel knows about processes."""

from typing import Protocol

from onbeat.model.worker import Worker


class Liveness(Protocol):
    def is_gone(self, worker: Worker) -> bool:
        """Whether the worker's process has certainly ended: it ran on this machine, and is no more.

        False when it runs, or when it cannot be known from here. This only speeds recovery up;
        what a worker may write is decided by its tokens.
        """
        ...
