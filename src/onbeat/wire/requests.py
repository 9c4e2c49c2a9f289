"""The request of each operation, and the smaller answers."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.job import JobState
from onbeat.model.limits import (
    BACKFILL_MAX,
    KEY_CHARS_MAX,
    NAME_CHARS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
)
from onbeat.model.schedule import ScheduleStatus
from onbeat.wire.jobs import EnqueueBody, JobInfo, ReasonBody
from onbeat.wire.limits import LimitBody
from onbeat.wire.recurrences import PreviewBody
from onbeat.wire.schedules import ScheduleAnswer, ScheduleBody
from onbeat.wire.values import InstantForm
from onbeat.wire.worker_results import ClaimBody, LeaseBody, SettleBody

PAGE_MAX = 2**31

IdForm = Annotated[str, Meta(description="A UUID, or 24 or 32 hexadecimal digits")]
LimitForm = Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Items in a page")]
PageForm = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Which page, from 1")]
SearchForm = Annotated[str, Meta(max_length=200, description="Part of a name or key, in any case")]


class NoParams(msgspec.Struct, frozen=True):
    """The request of an operation without parameters."""


class CreateSchedule(msgspec.Struct, frozen=True):
    schedule: ScheduleBody


class PutSchedule(msgspec.Struct, frozen=True):
    key: Annotated[str, Meta(max_length=KEY_CHARS_MAX)]
    schedule: ScheduleBody


class UpdateSchedule(msgspec.Struct, frozen=True):
    id: IdForm
    changes: ScheduleBody


class ScheduleById(msgspec.Struct, frozen=True):
    id: IdForm


class ListSchedules(msgspec.Struct, frozen=True, kw_only=True):
    status: ScheduleStatus | None = None
    q: SearchForm | None = None
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    page: PageForm = 1


class ListEvents(msgspec.Struct, frozen=True, kw_only=True):
    id: IdForm
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    page: PageForm = 1


class BackfillBody(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"first": "from", "last": "to"},
):
    """A span of the past, both ends included, and at most `limit` of its occurrences."""

    first: InstantForm
    last: InstantForm
    limit: Annotated[int, Meta(ge=1, le=BACKFILL_MAX)] = PAGE_LIMIT_MAX


class Backfill(msgspec.Struct, frozen=True):
    id: IdForm
    span: BackfillBody


class PreviewRecurrence(msgspec.Struct, frozen=True):
    recurrence: PreviewBody


class Enqueue(msgspec.Struct, frozen=True):
    jobs: EnqueueBody


class JobById(msgspec.Struct, frozen=True):
    id: IdForm


class CancelJob(msgspec.Struct, frozen=True):
    id: IdForm
    why: ReasonBody = ReasonBody()


class ClaimJobs(msgspec.Struct, frozen=True):
    claim: ClaimBody


class StartJob(msgspec.Struct, frozen=True):
    id: IdForm
    lease: LeaseBody


class RenewJob(msgspec.Struct, frozen=True):
    id: IdForm
    lease: LeaseBody


class SettleJob(msgspec.Struct, frozen=True):
    id: IdForm
    report: SettleBody


class ListJobs(msgspec.Struct, frozen=True, kw_only=True):
    state: JobState | None = None
    queue: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    task: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    schedule_id: IdForm | None = None
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class ListQueues(msgspec.Struct, frozen=True, kw_only=True):
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    page: PageForm = 1


class QueueByName(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]


class LimitQueue(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
    limits: LimitBody


class ListWorkers(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Annotated[
        int, Meta(ge=0, le=PAGE_LIMIT_MAX, description="Running jobs shown of each worker")
    ] = PAGE_LIMIT_DEFAULT


class ListDeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    source: (
        Annotated[str, Meta(max_length=NAME_CHARS_MAX, description="Where they came in")] | None
    ) = None
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class DeadLetterById(msgspec.Struct, frozen=True):
    id: IdForm


class Created(msgspec.Struct, frozen=True):
    id: str


class PutResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """`created` and `changed` are shown as false when nothing changed."""

    id: str
    created: bool = True
    changed: bool = True


class Message(msgspec.Struct, frozen=True):
    message: str


class Triggered(msgspec.Struct, frozen=True):
    job_id: str


class Backfilled(msgspec.Struct, frozen=True):
    """The number of added jobs, and the last occurrence examined."""

    jobs: int
    through: datetime | UnsetType = UNSET


class SchedulesAnswer(msgspec.Struct, frozen=True):
    schedules: tuple[ScheduleAnswer, ...]
    page: int
    limit: int
    total: int


class EnqueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`id` of one job or `ids` of many. `created` is false where a live job had the unique key; for
    many jobs, `existing` has the ids of those live jobs.
    """

    id: str | UnsetType = UNSET
    ids: tuple[str, ...] | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    existing: tuple[str, ...] | UnsetType = UNSET


class JobsAnswer(msgspec.Struct, frozen=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    jobs: tuple[JobInfo, ...]
    limit: int
    cursor: str | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job does not run: a code for programs, a text for people, and when it may run.

    `may_run_at` is the earliest possible instant, null where the job does not wait for a time.
    """

    id: str
    state: JobState
    code: str
    explanation: str
    may_run_at: datetime | None
    waits_for: tuple[str, ...]
