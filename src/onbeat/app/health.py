"""What one process tells about itself: whether it can work, and its figures."""

from typing import Final

from onbeat.app.backend import Backend
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.metrics import Metrics

LOOP_SILENT_MAX: Final = 60.0  # seconds; every loop runs far more often
RESTFUL_LOOPS: Final = frozenset({"alerts", "folder", "pruner", "replanner", "sampler", "vacuum"})
"""Loops with pauses longer than `LOOP_SILENT_MAX`."""


class Health:
    """Reads the store and the counters of a process that has `CompositeTelemetry`."""

    def __init__(self, backend: Backend, telemetry: CompositeTelemetry) -> None:
        self.backend = backend
        self.counters = telemetry.counters
        self.metrics = Metrics(telemetry.counters)
        self.is_ready = False

    async def readiness(self) -> dict[str, str]:
        """Each check with `ok` or what is wrong. Raises `Unavailable` where the store is away."""
        await self.backend.store.ping()
        return {
            "store": "ok",
            "service": "ok" if self.is_ready else "starting or draining",
            **self.loops(),
        }

    def loops(self) -> dict[str, str]:
        """The state of each loop; the silence where it is too long."""
        return {
            f"{name} loop": "ok" if silence < LOOP_SILENT_MAX else f"silent for {silence:.0f} s"
            for name, silence in self.counters.silences().items()
            if name not in RESTFUL_LOOPS
        }

    async def read_figures(self) -> None:
        await self.metrics.refresh(self.backend.store, self.backend.clock.now())

    async def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics and their content type, for the `Accept` of a request."""
        await self.read_figures()
        return self.metrics.exposition(accept)
