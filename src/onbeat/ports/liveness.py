"""The port to this machine's kernel for the state of processes."""

from collections.abc import Callable, Iterable
from typing import Protocol

from onbeat.model.worker import WorkerRecord


class Liveness(Protocol):
    @property
    def tells(self) -> bool:
        """Whether `watch` can call at all on this system."""
        ...

    def is_gone(self, worker: WorkerRecord) -> bool:
        """Whether the worker's process has certainly ended: it ran on this machine, and is gone.

        False when it runs, or when its state is unknown here. This only speeds up recovery; tokens
        decide which writes of a worker count.
        """
        ...

    def watch(self, workers: Iterable[WorkerRecord], on_end: Callable[[], None]) -> None:
        """Call `on_end` in the running event loop as soon as one of these processes ends.

        Takes the place of the watch before; without workers there is none. A hint: not every
        process can be watched, so the caller also looks by itself.
        """
        ...
