"""Wire records of failures by fault, and of dead letters by group."""

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.fault import FaultJobs, FaultProcess, FaultRecord, OperatorNote, Spread
from onbeat.model.limits import (
    FAULT_NOTE_CHARS_MAX,
    NAME_CHARS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    REASON_CHARS_MAX,
    REPLAY_MAX,
)
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.jobs import JobInfo
from onbeat.wire.values import InstantForm, SpanForm

FAULT_MAX: Final = 2**63 - 1
FaultForm = Annotated[
    str, Meta(pattern=r"^[0-9]{1,19}$", description="The number of a fault, as its list has it")
]
FailureOrder = Literal["last", "count", "first"]
NameForm = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
CursorForm = Annotated[str, Meta(max_length=64, description="Where the page before ended")]
DryRunForm = Annotated[bool, Meta(description="Count, and change nothing")]
ReplayLimitForm = Annotated[int, Meta(ge=1, le=REPLAY_MAX, description="How many are looked at")]


class ListFailures(msgspec.Struct, frozen=True, kw_only=True):
    q: (
        Annotated[
            str, Meta(max_length=NAME_CHARS_MAX, description="Part of the title, in any case")
        ]
        | None
    ) = None
    queue: NameForm | None = None
    task: NameForm | None = None
    since: (
        Annotated[InstantForm, Meta(description="Only what has failed at or after this")] | None
    ) = None
    order: Annotated[
        FailureOrder,
        Meta(description="Latest failure first, most attempts first, or latest first failure"),
    ] = "last"
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Items in a page")] = (
        PAGE_LIMIT_DEFAULT
    )
    cursor: CursorForm | None = None


class FailureById(msgspec.Struct, frozen=True):
    fault: FaultForm


class SilenceBody(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"span": "for"},
):
    """Until when, or for how long; `"until": null` ends it."""

    until: InstantForm | UnsetType | None = UNSET
    span: SpanForm | UnsetType = UNSET
    note: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | None = None


class SilenceFailure(msgspec.Struct, frozen=True):
    fault: FaultForm
    silence: SilenceBody


class NoteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty text deletes the note."""

    text: Annotated[
        str, Meta(max_length=FAULT_NOTE_CHARS_MAX, examples=["The gateway's fault: ticket 4711"])
    ]


class NoteFailure(msgspec.Struct, frozen=True):
    fault: FaultForm
    note: NoteBody


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a group is replayed, newest first."""

    dry_run: DryRunForm = False
    limit: ReplayLimitForm = REPLAY_MAX
    cursor: CursorForm | None = None


class ReplayFailures(msgspec.Struct, frozen=True):
    fault: FaultForm
    replay: ReplayBody = ReplayBody()


class FailureInfo(AnswerRecord, frozen=True, kw_only=True):
    """Failures that are alike.

    `failed` and `waiting` count its jobs, up to 1,001 in a list and 10,001 for one fault: that
    stands for more. `hours` counts attempts by hour, the current one last: 24 in a list, else 168.
    `process` told of it first; null where that is not known. `note` says why it is silenced.
    """

    fault: str
    title: str
    task: str
    queue: str
    place: Annotated[str, Meta(description="The frame that raised, `file.py in function`")]
    first_at: datetime
    last_at: datetime
    attempts: int
    failed: int
    waiting: int
    hours: tuple[int, ...]
    sample_job: str | None
    silenced_until: datetime | None
    note: str | None
    process: FaultProcess | None
    operator_note: OperatorNote | None
    jobs: Annotated[tuple[JobInfo, ...], Meta(description="The newest")] | UnsetType = UNSET
    spread: Spread | UnsetType = UNSET


class FailuresAnswer(AnswerRecord, frozen=True, kw_only=True):
    """`total` counts all that match; `cursor` leads to the next page and is null on the last."""

    failures: tuple[FailureInfo, ...]
    total: int
    limit: int
    cursor: str | None


class GroupReplayed(AnswerRecord, frozen=True, kw_only=True):
    """`matched` were looked at, `done` were replayed or deleted, or would be in a dry run.

    `skipped` could not be. With `more` the next call takes `cursor`.
    """

    dry_run: bool
    matched: int
    done: int
    skipped: int
    more: bool
    cursor: str | None

    @property
    def changed(self) -> bool:
        return self.done > 0 and not self.dry_run


class ListDeadLetterGroups(msgspec.Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Groups, newest first")] = (
        PAGE_LIMIT_DEFAULT
    )


class DeadLetterGroupById(msgspec.Struct, frozen=True):
    group: FaultForm
    replay: ReplayBody = ReplayBody()


class DeadLetterGroup(AnswerRecord, frozen=True, kw_only=True):
    """Dead letters of one source whose reasons are alike; `sample` is the id of the newest."""

    group: str
    source: str
    reason: str
    letters: int
    first_at: datetime
    last_at: datetime
    sample: str


class DeadLetterGroupsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Groups among the newest 10,000 dead letters; `more` tells that there are older ones."""

    groups: tuple[DeadLetterGroup, ...]
    total: int
    looked_at: int
    more: bool


def read_fault_key(text: str, field: str = "fault") -> int:
    """The key; raises `Invalid` for one that no store can have."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= FAULT_MAX):
        raise Invalid(f"{field} is the number of a fault, up to {FAULT_MAX}", field)
    return int(text)


def failure_info(record: FaultRecord, jobs: FaultJobs, hours: tuple[int, ...]) -> FailureInfo:
    return FailureInfo(
        fault=str(record.fault),
        title=record.title,
        task=record.task,
        queue=record.queue,
        place=record.place,
        first_at=record.first_at,
        last_at=record.last_at,
        attempts=record.attempts,
        failed=jobs.failed,
        waiting=jobs.waiting,
        hours=hours,
        sample_job=record.sample_job,
        silenced_until=record.silenced_until,
        note=record.note,
        process=record.process,
        operator_note=record.operator_note,
    )
