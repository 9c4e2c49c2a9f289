"""Wire records of what an edit of a schedule would change, and of what its occurrences became."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.limits import KEY_CHARS_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.requests import IdForm
from onbeat.wire.schedules import ScheduleAnswer, ScheduleBody
from onbeat.wire.values import InstantForm

FOLLOW: Final = frozenset(
    {
        *("id", "next_at", "created_at", "updated_at", "recurrence", "anchor"),
        *("callback_url", "method", "headers", "body"),
    }
)
"""The fields of an answer that follow from others, as from `target`, or from the time of the edit.
"""


class DiffSchedule(msgspec.Struct, frozen=True):
    id: IdForm
    changes: ScheduleBody


class DiffPut(msgspec.Struct, frozen=True):
    key: Annotated[str, Meta(max_length=KEY_CHARS_MAX)]
    schedule: ScheduleBody


class FieldChange(msgspec.Struct, frozen=True):
    """A field as answers show it; null where it is not set. Hidden values look alike."""

    field: str
    before: Any
    after: Any


class ScheduleDiff(AnswerRecord, frozen=True, kw_only=True):
    """What an edit would change; nothing is changed.

    `cancels` and `plans` count jobs; `more` says that there are more than were counted. `created`
    says that there is no schedule with this key yet, so that all of it would be new.
    """

    created: bool | UnsetType = UNSET
    changes: tuple[FieldChange, ...]
    cancels: int
    plans: int
    more: bool | UnsetType = UNSET
    next_before: datetime | None
    next_after: datetime | None
    description: str
    notes: tuple[str, ...]
    occurrences: tuple[datetime, ...]


class ListOccurrences(
    msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}
):
    id: IdForm
    disposition: OccurrenceOutcome | None = None
    since: InstantForm | None = None
    until: InstantForm | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Items in a page")] = (
        PAGE_LIMIT_DEFAULT
    )
    cursor: InstantForm | None = None


class OccurrenceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One occurrence, or all from `at` up to `until` where a run of them was skipped."""

    at: datetime
    until: datetime | UnsetType = UNSET
    disposition: OccurrenceOutcome
    reason: str | UnsetType = UNSET
    job_id: str | UnsetType = UNSET
    due_at: datetime | UnsetType = UNSET
    started_at: datetime | UnsetType = UNSET
    finished_at: datetime | UnsetType = UNSET


class OccurrencesAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Latest first; `cursor` leads on and is null at the end.

    A search reads a bounded number of occurrences for each page, so that a page may have few.
    """

    occurrences: tuple[OccurrenceAnswer, ...]
    limit: int
    cursor: datetime | None


def changes_between(before: ScheduleAnswer, after: ScheduleAnswer) -> tuple[FieldChange, ...]:
    """The fields that a caller could have written, and that differ, by their order."""
    old, new = before.to_dict(), after.to_dict()
    names = [name for name in ScheduleAnswer.__struct_fields__ if name not in FOLLOW]
    return tuple(
        FieldChange(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    )
