"""Which of Onbeat's own events schedules of an earlier version asked for, and ask for now."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from onbeat.model.event import OWN_TYPES
from onbeat.model.reaction import EventPattern
from onbeat.rules.own_events import fits, wanted_types
from onbeat.testing.build import a_schedule

PATTERNS: Final = (
    "*",
    "onb*",
    "onbeat.*",
    "onbeat.job.*",
    "onbeat.schedule.*",
    "onbeat.s*",
    "onbeat.job.failed",
)
OLD_TYPES: Final = OWN_TYPES[:4]
"""Those that were written before queues could be late."""

Rows = set[tuple[str, str]]


def id_of(place: int) -> str:
    return str(UUID(int=place + 1))


def old_rows() -> Rows:
    """Type and id of a schedule, for each pattern, as the earlier version stored them."""
    return {
        (type, id_of(place))
        for place, pattern in enumerate(PATTERNS)
        for type in OLD_TYPES
        if fits(pattern, type)
    }


def new_rows() -> Rows:
    return {
        (type, id_of(place))
        for place, pattern in enumerate(PATTERNS)
        for type in wanted_types(a_schedule(on=(EventPattern(pattern),)))
    }


def insert_of(table: str, rows: Iterable[tuple[str, str]]) -> str:
    values = ", ".join(f"('{type}', '{id}')" for type, id in sorted(rows))
    return f"INSERT INTO {table} (type, schedule_id) VALUES {values}"
