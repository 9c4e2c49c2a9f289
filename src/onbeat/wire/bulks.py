"""Wire records of bulks, and of the filters that lists and bulks share."""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.bulk import Bulk, BulkAction, BulkState
from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.limits import (
    BULK_IDS_MAX,
    KEY_CHARS_MAX,
    NAME_CHARS_MAX,
    PAGE_LIMIT_DEFAULT,
    SEARCH_CHARS_MAX,
    SEARCH_LABELS_MAX,
)
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import IdForm, LabelForm, LimitForm
from onbeat.wire.values import InstantForm, SpanForm, value_or_unset

COMMA: Final = re.compile(r"(?<!\\),")


class JobWhere(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filters of `GET /api/jobs`, which all hold together, or `ids` that are judged by them."""

    state: JobState | UnsetType | None = UNSET
    queue: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | UnsetType | None = UNSET
    task: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | UnsetType | None = UNSET
    schedule_id: IdForm | UnsetType | None = UNSET
    flow: IdForm | UnsetType | None = UNSET
    fault: Annotated[str, Meta(max_length=19)] | UnsetType | None = UNSET
    label: LabelForm | UnsetType | None = UNSET
    since: InstantForm | UnsetType | None = UNSET
    until: InstantForm | UnsetType | None = UNSET
    error: Annotated[str, Meta(max_length=SEARCH_CHARS_MAX)] | UnsetType | None = UNSET
    unique: Annotated[str, Meta(max_length=KEY_CHARS_MAX)] | UnsetType | None = UNSET
    ids: Annotated[tuple[IdForm, ...], Meta(max_length=BULK_IDS_MAX)] | UnsetType | None = UNSET


class BulkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do with all jobs that match. A dry run only counts them.

    A rescheduling has `run_at`, or `delay` from the request on, for all alike. `upto` is the one of
    a dry run: what was made later is left alone.
    """

    do: BulkAction
    where: JobWhere
    run_at: InstantForm | UnsetType | None = UNSET
    delay: SpanForm | UnsetType | None = UNSET
    dry_run: bool = False
    upto: IdForm | UnsetType | None = UNSET


class MakeBulk(msgspec.Struct, frozen=True):
    bulk: BulkBody


class BulkById(msgspec.Struct, frozen=True):
    id: IdForm


class ListBulks(msgspec.Struct, frozen=True, kw_only=True):
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class BulkCount(AnswerRecord, frozen=True, kw_only=True):
    """How many jobs match, more than that with `more`, by state, and the newest of them.

    `id` and the following are those of the bulk; a dry run makes none, and has `created` false.
    """

    do: BulkAction
    count: int
    more: bool
    states: dict[str, int]
    sample: tuple[JobInfo, ...]
    run_at: datetime | UnsetType = UNSET
    upto: str | None
    created: bool = True
    id: str | UnsetType = UNSET
    state: BulkState | UnsetType = UNSET
    starts_at: datetime | UnsetType = UNSET


class BulkInfo(AnswerRecord, frozen=True, kw_only=True):
    """One bulk. `done` jobs were changed, `skipped` had moved on, `failed` could not be changed."""

    id: str
    do: BulkAction
    where: JobWhere
    run_at: datetime | UnsetType = UNSET
    state: BulkState
    counted: int
    more: bool
    done: int
    skipped: int
    failed: int
    made_by: str
    created_at: datetime
    starts_at: datetime
    finished_at: datetime | None


class BulksAnswer(msgspec.Struct, frozen=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    bulks: tuple[BulkInfo, ...]
    limit: int
    cursor: str | None


def read_label_filter(text: str, field: str) -> tuple[str, ...]:
    r"""`key:value`, or several with commas between; a comma of a label itself is `\,`."""
    pairs = tuple(part.replace("\\,", ",") for part in COMMA.split(text))
    if len(pairs) > SEARCH_LABELS_MAX:
        raise Invalid(f"{field} may have at most {SEARCH_LABELS_MAX} of key:value", field)
    for label in pairs:
        if ":" not in label:
            raise Invalid(f"{field} must be key:value, such as run:2026-11", field)
    return pairs


def label_filter(pairs: tuple[str, ...]) -> str:
    """The text for these pairs of `key:value`."""
    return ",".join(label.replace(",", "\\,") for label in pairs)


def bulk_answer(bulk: Bulk) -> BulkInfo:
    return BulkInfo(
        id=bulk.id,
        do=bulk.do,
        where=where_answer(bulk),
        run_at=value_or_unset(bulk.run_at),
        state=bulk.state,
        counted=bulk.counted,
        more=bulk.more,
        done=bulk.done,
        skipped=bulk.skipped,
        failed=bulk.failed,
        made_by=bulk.made_by,
        created_at=bulk.created_at,
        starts_at=bulk.starts_at,
        finished_at=bulk.finished_at,
    )


def where_answer(bulk: Bulk) -> JobWhere:
    """The filter without what is not set."""
    where = bulk.where
    return JobWhere(
        state=where.state or UNSET,
        queue=where.queue or UNSET,
        task=where.task or UNSET,
        schedule_id=where.schedule_id or UNSET,
        flow=where.flow or UNSET,
        label=label_filter(where.label) or UNSET,
        since=where.since or UNSET,
        until=where.until or UNSET,
        error=where.error or UNSET,
        unique=where.unique or UNSET,
        ids=UNSET if where.ids is None else where.ids,
    )
