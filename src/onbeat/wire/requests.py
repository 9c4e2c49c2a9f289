"""The request of each operation, and the smaller answers."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.job import JobState
from onbeat.model.limits import (
    BACKFILL_MAX,
    FLOWS_LISTED_DEFAULT,
    FLOWS_LISTED_MAX,
    KEY_CHARS_MAX,
    LABEL_FILTER_CHARS_MAX,
    NAME_CHARS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    PREVIEW_MAX,
    SEARCH_CHARS_MAX,
)
from onbeat.model.schedule import ScheduleStatus
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.jobs import (
    CancelJobBody,
    EnqueueBody,
    JobInfo,
    ReasonBody,
    RescheduleBody,
    RetryJobBody,
)
from onbeat.wire.limits import LimitBody
from onbeat.wire.queues import PauseBody
from onbeat.wire.recurrences import PreviewBody
from onbeat.wire.schedules import ScheduleAnswer, ScheduleBody
from onbeat.wire.values import InstantForm
from onbeat.wire.worker_results import ClaimBody, LeaseBody, SettleBody

PAGE_MAX = 2**31

IdForm = Annotated[str, Meta(description="A UUID, or 24 or 32 hexadecimal digits")]
LimitForm = Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Items in a page")]
LabelForm = Annotated[
    str,
    Meta(
        max_length=LABEL_FILTER_CHARS_MAX,
        description="`key:value`; several with commas between, a comma in a label as `\\,`",
        examples=["run:2026-11"],
    ),
]
PageForm = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Which page, from 1")]
SearchForm = Annotated[
    str, Meta(max_length=NAME_CHARS_MAX, description="Part of a name or key, in any case")
]


class NoParams(msgspec.Struct, frozen=True):
    """The request of an operation without parameters."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that takes none, which some clients send all the same."""


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


class PreviewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    id: IdForm
    count: Annotated[int, Meta(ge=1, le=PREVIEW_MAX, description="Occurrences to show")] = 10


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
    dry_run: Annotated[bool, Meta(description="Count what it would add, and add nothing")] = False


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
    why: CancelJobBody = CancelJobBody()


class RetryJob(msgspec.Struct, frozen=True):
    id: IdForm
    how: RetryJobBody = RetryJobBody()


class RescheduleJob(msgspec.Struct, frozen=True):
    id: IdForm
    due: RescheduleBody


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
    flow: IdForm | None = None
    fault: (
        Annotated[str, Meta(max_length=19, description="Jobs whose last failure has this fault")]
        | None
    ) = None
    label: LabelForm | None = None
    since: Annotated[InstantForm, Meta(description="Ended, or else due, then or later")] | None = (
        None
    )
    until: Annotated[InstantForm, Meta(description="Ended, or else due, before")] | None = None
    error: (
        Annotated[
            str, Meta(max_length=SEARCH_CHARS_MAX, description="Part of the error, in any case")
        ]
        | None
    ) = None
    unique: (
        Annotated[str, Meta(max_length=KEY_CHARS_MAX, description="With this unique key")] | None
    ) = None
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None
    counts: Annotated[
        bool, Meta(description="Also count the jobs of each state that match the other filters")
    ] = False


class FlowById(msgspec.Struct, frozen=True):
    id: IdForm


class CancelFlow(msgspec.Struct, frozen=True):
    id: IdForm
    why: ReasonBody = ReasonBody()


class ShowFlow(msgspec.Struct, frozen=True, kw_only=True):
    id: IdForm
    limit: Annotated[int, Meta(ge=0, le=PAGE_LIMIT_MAX, description="0 for the counts alone")] = (
        PAGE_LIMIT_DEFAULT
    )
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class ListFlows(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=FLOWS_LISTED_MAX, description="Items in a page")] = (
        FLOWS_LISTED_DEFAULT
    )
    cursor: Annotated[str, Meta(description="The `cursor` of the page before")] | None = None


class ListQueues(msgspec.Struct, frozen=True, kw_only=True):
    limit: LimitForm = PAGE_LIMIT_DEFAULT
    page: PageForm = 1


class QueueByName(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]


class PauseQueue(msgspec.Struct, frozen=True, omit_defaults=True):
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
    why: PauseBody = PauseBody()


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


UnknownTasks = (
    Annotated[
        tuple[str, ...],
        Meta(
            description="Tasks of the request that no live worker knows: their jobs wait until one"
            " does. Absent where there is none, and where no worker is alive"
        ),
    ]
    | UnsetType
)


class Created(msgspec.Struct, frozen=True):
    id: str
    unknown_tasks: UnknownTasks = UNSET


class PutResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """`created` and `changed` are shown as false when nothing changed."""

    id: str
    created: bool = True
    changed: bool = True
    unknown_tasks: UnknownTasks = UNSET


class Message(msgspec.Struct, frozen=True):
    message: str


class Triggered(msgspec.Struct, frozen=True):
    job_id: str


class Backfilled(AnswerRecord, frozen=True):
    """The number of added jobs, and the last occurrence examined where there may be more.

    The other fields are those of a dry run, whose `jobs` would be added: occurrences that have a
    job already, those among `jobs` that were skipped before, the first and the last occurrence,
    and whether there are more than the limit.
    """

    jobs: int
    through: datetime | UnsetType = UNSET
    exist: int | UnsetType = UNSET
    skipped: int | UnsetType = UNSET
    first: datetime | UnsetType = UNSET
    last: datetime | UnsetType = UNSET
    more: bool | UnsetType = UNSET

    @property
    def changed(self) -> bool:
        """False for a dry run, which the audit log then tells."""
        return self.exist is UNSET


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
    flow: Annotated[str, Meta(description="Of jobs that come after one another")] | UnsetType = (
        UNSET
    )
    unknown_tasks: UnknownTasks = UNSET


class StateCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs are in a state.

    With `more` there are others that were not counted. With `about` it is that of the newest
    sample, since there are too many to be counted for each answer.
    """

    count: int
    more: bool = False
    about: bool = False


class JobsAnswer(AnswerRecord, frozen=True):
    """Newest first; `cursor` leads to the next page and is null on the last.

    A search that has looked at `searched` jobs without filling the page ends there. It has then
    looked at all that were made since `searched_to`, and goes on at the cursor. `counts` are of all
    that match but for the filter by state, where they were asked for.
    """

    jobs: tuple[JobInfo, ...]
    limit: int
    cursor: str | None
    searched: int | UnsetType = UNSET
    searched_to: datetime | UnsetType = UNSET
    counts: dict[str, StateCount] | UnsetType = UNSET


class Explanation(AnswerRecord, frozen=True, kw_only=True):
    """Why a job does not run: a code for programs, a text for people, and when it may run.

    `may_run_at` is the earliest possible instant, null where the job does not wait for a time.
    """

    id: str
    state: JobState
    code: str
    explanation: str
    may_run_at: datetime | None
    waits_for: tuple[str, ...]
