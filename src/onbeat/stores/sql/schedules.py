"""Schedules as rows: indexed columns, and the rest as JSON text."""

from collections.abc import Sequence
from typing import Any, Final

from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Schedule, ScheduleSpec, ScheduleStatus
from onbeat.stores.sql.specs import SpecForm
from onbeat.stores.sql.values import instant, instant_or_none, to_json

SPEC: Final = SpecForm(ScheduleSpec, ("id", "key"))


def spec_text(schedule: Schedule) -> str:
    return to_json(SPEC.pack(schedule))


def read_schedule(row: Sequence[Any]) -> Schedule:
    id, key, status, planned_through, plan_at, version, text = row
    return Schedule(
        id=ScheduleId(str(id)),
        key=key,
        status=ScheduleStatus(status),
        planned_through=instant(planned_through),
        plan_at=instant_or_none(plan_at),
        version=version,
        **SPEC.decode(text),
    )


def search_text(*parts: str) -> str:
    """The text without NUL, the only character that PostgreSQL cannot store."""
    return "\n".join(parts).casefold().replace("\0", "")
