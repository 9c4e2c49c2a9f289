"""The table of all operations, from which every interface is generated."""

from typing import Any, Final

from onbeat.operations.tables import (
    administration,
    alerts,
    events,
    failures,
    fleet,
    flows,
    jobs,
    pulses,
    remote_work,
    schedules,
)
from onbeat.operations.tables.operation import Operation

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *schedules.OPERATIONS,
    *jobs.OPERATIONS,
    *flows.OPERATIONS,
    *remote_work.OPERATIONS,
    *events.OPERATIONS,
    *failures.OPERATIONS,
    *fleet.OPERATIONS,
    *alerts.OPERATIONS,
    *pulses.OPERATIONS,
    *administration.OPERATIONS,
)
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
