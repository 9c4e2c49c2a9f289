"""Figures over time."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import pulses
from onbeat.operations.tables.operation import Operation
from onbeat.wire.pulses import AskPulses, PulsesAnswer, QueueStartsAnswer
from onbeat.wire.requests import NoParams

PULSE_SHOW: Final = Operation(
    name="pulse.show",
    id="getPulses",
    summary="Rates, lateness and depths of the last hour, day or week",
    function=pulses.show_pulses,
    request=AskPulses,
    answer=PulsesAnswer,
    method="GET",
    path="/api/pulses",
    scope=Scope.READ,
)

PULSE_QUEUES: Final = Operation(
    name="pulse.queues",
    id="getQueuePulses",
    summary="How many attempts of each queue began in each minute of the last hour",
    function=pulses.show_queue_starts,
    request=NoParams,
    answer=QueueStartsAnswer,
    method="GET",
    path="/api/pulses/queues",
    scope=Scope.READ,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (PULSE_SHOW, PULSE_QUEUES)
