"""Schedules as rows: indexed columns, and the rest as JSON text."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from onbeat.model.ids import ScheduleId
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, Schedule, ScheduleStatus
from onbeat.model.target import Target
from onbeat.stores.sql.values import instant, instant_or_none, to_json


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a schedule that no query reads."""

    name: str
    recurrence: RecurrenceSpec
    target: Target
    created_at: datetime
    updated_at: datetime
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    catch_up: CatchUp = CatchUp.LATEST
    grace: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    jitter: timedelta = timedelta()
    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_after: timedelta | None = None
    labels: dict[str, str] = {}
    zone_data: str = ""


SPEC: Final = msgspec.json.Decoder(ScheduleSpec)
SPEC_FIELDS: Final = ScheduleSpec.__struct_fields__


def spec_text(schedule: Schedule) -> str:
    return to_json(ScheduleSpec(**{name: getattr(schedule, name) for name in SPEC_FIELDS}))


def read_schedule(row: Sequence[Any]) -> Schedule:
    id, key, status, planned_through, plan_at, version, text = row
    spec = SPEC.decode(text)
    return Schedule(
        id=ScheduleId(str(id)),
        key=key,
        status=ScheduleStatus(status),
        planned_through=instant(planned_through),
        plan_at=instant_or_none(plan_at),
        version=version,
        **{name: getattr(spec, name) for name in SPEC_FIELDS},
    )


def search_text(*parts: str) -> str:
    """The text without NUL, the only character that PostgreSQL cannot store."""
    return "\n".join(parts).casefold().replace("\0", "")
