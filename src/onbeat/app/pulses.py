"""`beat.pulses`: the history of rates and depths."""

from typing import Literal

from onbeat.app.backend import Backend
from onbeat.operations.tables.pulses import PULSE_QUEUES, PULSE_SHOW
from onbeat.wire.pulses import AskPulses, PulsesAnswer, QueueStartsAnswer
from onbeat.wire.requests import NoParams


class Pulses:
    """The history of rates and depths."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def show(
        self,
        span: Literal["hour", "day", "week"] = "hour",
        *,
        queue: str | None = None,
        task: str | None = None,
    ) -> PulsesAnswer:
        """Rates, quantiles and depths of the last `span`, of all or of one queue or task."""
        return self._backend.wait_for(self.ashow(span, queue=queue, task=task))

    async def ashow(
        self,
        span: Literal["hour", "day", "week"] = "hour",
        *,
        queue: str | None = None,
        task: str | None = None,
    ) -> PulsesAnswer:
        request = AskPulses(span=span, queue=queue, task=task)
        return await self._backend.call(PULSE_SHOW, request)

    def queues(self) -> QueueStartsAnswer:
        """How many attempts of each queue began in each minute of the last hour."""
        return self._backend.wait_for(self.aqueues())

    async def aqueues(self) -> QueueStartsAnswer:
        return await self._backend.call(PULSE_QUEUES, NoParams())
