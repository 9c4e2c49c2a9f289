"""A process beside the worker that sends its heartbeats while its interpreter is held."""

from typing import Final, Protocol

from onbeat.model.worker import WorkerRecord


class Sidecar(Protocol):
    """Used from the heartbeat threads; its methods never block."""

    def report_life(self, row: WorkerRecord) -> None:
        """Report that this interpreter runs, with the row of its latest heartbeat."""
        ...

    def last_beat(self) -> int:
        """The highest beat that the sidecar sent for any of the rows; 0 before the first."""
        ...

    def close(self) -> None:
        """Stop the heartbeats. Call this before deleting the rows: a heartbeat recreates them."""
        ...


class NoSidecar:
    """For memory stores, for programs without a sidecar, and for systems that cannot start one."""

    def report_life(self, row: WorkerRecord) -> None:
        pass

    def last_beat(self) -> int:
        return 0

    def close(self) -> None:
        pass


NO_SIDECAR: Final = NoSidecar()
