"""The port to this machine's kernel for the state of processes."""

from typing import Protocol

from onbeat.model.worker import WorkerRecord


class Liveness(Protocol):
    def is_gone(self, worker: WorkerRecord) -> bool:
        """Whether the worker's process has certainly ended: it ran on this machine, and is gone.

        False when it runs, or when its state is unknown here. This only speeds up recovery; tokens
        decide which writes of a worker count.
        """
        ...
