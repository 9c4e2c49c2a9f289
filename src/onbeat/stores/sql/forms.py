"""How each database stores the same records as rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LANE_DISPOSITIONS_MAX
from onbeat.model.schedule import Schedule
from onbeat.model.transition import Transition
from onbeat.ports.access import TargetChange
from onbeat.stores.sql.dialect import Columns, Row, Value
from onbeat.stores.sql.schedules import spec_text
from onbeat.stores.sql.values import instant, micros, to_json, with_target

Record = TypeVar("Record")


class Form(msgspec.Struct, Generic[Record], frozen=True, kw_only=True):
    """`row` and `read` follow the order of the columns."""

    columns: Columns
    row: Callable[[Record], Row]
    read: Callable[[Sequence[Any]], Record]

    @property
    def names(self) -> str:
        return ", ".join(self.columns)


class AttemptForm(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of attempts: of the table `attempts`, and of the last one, kept in `finished`.

    `end_row` has the values of `end_columns`, for a job and the attempt that ended it.
    """

    columns: str
    kept: str
    ending: str
    has_ending: str
    read: Callable[[Sequence[Any]], Attempt]
    end_columns: Columns
    end_row: Callable[[Job, Attempt | None], Row]


ATTEMPT: Final = msgspec.json.Decoder(Attempt)
ATTEMPT_RECORDS: Final = AttemptForm(
    columns="record",
    kept="job_id, token, record",
    ending="id, token, last_attempt",
    has_ending="last_attempt IS NOT NULL",
    read=lambda row: ATTEMPT.decode(row[0]),
    end_columns={"last_attempt": "text"},
    end_row=lambda _job, last: (None if last is None else to_json(last),),
)
"""Every attempt is stored as one record."""


def transition_row(step: Transition) -> Row:
    return step.job_id, micros(step.at), step.to, step.cause, step.attempt, step.worker


def read_transition(row: Sequence[Any]) -> Transition:
    id, at, went, cause, attempt, worker = row
    return Transition(
        job_id=JobId(str(id)),
        at=instant(at),
        to=went,
        cause=cause,
        attempt=attempt,
        worker=worker,
    )


TRANSITION_COLUMNS: Final = Form(
    columns={
        "job_id": "uuid",
        "at": "bigint",
        "went": "text",
        "cause": "text",
        "attempt": "integer",
        "worker": "text",
    },
    row=transition_row,
    read=read_transition,
)


class DispositionForm(msgspec.Struct, frozen=True, kw_only=True):
    """The key of dispositions: `end` is the column that orders the runs of a schedule.

    `since` returns the condition, with its values, for runs that end at an instant or later; one
    within which more than `LANE_DISPOSITIONS_MAX` others have begun by then is not looked for.
    `nearest` selects the only run that may cover an instant. `within` is the condition for runs
    that may cover an instant from `params.first` to `params.last`; `select_each` has these values.
    `until` ends that part of the key at the last of them.
    """

    end: str
    since: Callable[[ScheduleId, int], tuple[str, tuple[Value, ...]]]
    nearest: str
    within: str
    until: str

    @property
    def key(self) -> Columns:
        return {"schedule_id": "uuid", self.end: "bigint"}


SINCE_BY_FIRST: Final = f"""
    first >= coalesce((SELECT max(first)
                       FROM (SELECT first, last FROM onbeat.dispositions
                             WHERE schedule_id = ? AND first <= ?
                             ORDER BY first DESC LIMIT {LANE_DISPOSITIONS_MAX:d}) AS before
                       WHERE last >= ?), ?)
"""  # noqa: S608  values are bound
BY_FIRST: Final = DispositionForm(
    end="first",
    since=lambda owner, first: (SINCE_BY_FIRST, (owner, first, first, first)),
    nearest="first <= ? ORDER BY first DESC",
    within="""
        first <= params.last
        AND first >= coalesce((SELECT first FROM onbeat.dispositions
                               WHERE schedule_id = params.schedule_id AND first <= params.first
                               ORDER BY first DESC LIMIT 1), params.first)
    """,
    until="TRUE",
)
BY_LAST: Final = DispositionForm(
    end="last",
    since=lambda _owner, first: ("last >= ?", (first,)),
    nearest="last >= ? ORDER BY last",
    within="last >= params.first AND first <= params.last",
    until="""
        last <= coalesce((SELECT last FROM onbeat.dispositions
                          WHERE schedule_id = params.schedule_id AND last >= params.last
                          ORDER BY last LIMIT 1), params.last)
    """,
)


class JobTable(msgspec.Struct, frozen=True, kw_only=True):
    """`view` has `columns`, which `JobForm.read` takes.

    `select_first` has places for an index, a condition and an order, and a mark for a number.
    `schedule_index` has the jobs of a schedule, if possible in the order of ids.
    """

    name: str
    view: str
    columns: str
    select_first: str
    schedule_index: str


def plain_table(name: str, columns: str, schedule_index: str) -> JobTable:
    """A table that is read as it is."""
    return JobTable(
        name=name,
        view=name,
        columns=columns,
        schedule_index=schedule_index,
        select_first=f"""
            SELECT {columns} FROM onbeat.{name} {{index}} WHERE {{where}} ORDER BY {{order}} LIMIT ?
        """,  # noqa: S608  values are bound
    )


SHARED_COLUMNS: Final[Columns] = {
    "id": "uuid",
    "attempt": "integer",
    "queue": "text",
    "priority": "smallint",
    "lane": "text",
    "due_at": "bigint",
    "unique_key": "text",
    "schedule_id": "uuid",
    "occurrence": "bigint",
    "overlap": "text",
    "token": "integer",
    "lost": "smallint",
    "released": "smallint",
    "started_at": "bigint",
    "cancel_reason": "text",
    "result": "text",
    "error": "text",
    "fault": "bigint",
    "progress": "text",
    "flow": "uuid",
    "spec": "text",
}
"""What a job that is cancelled keeps; it will not start, so not `start_by`."""


NEW_COLUMNS: Final[Columns] = {
    "id": "uuid",
    "queue": "text",
    "priority": "smallint",
    "lane": "text",
    "due_at": "bigint",
    "start_by": "bigint",
    "unique_key": "text",
    "schedule_id": "uuid",
    "occurrence": "bigint",
    "overlap": "text",
    "grp": "text",
    "flow": "uuid",
    "spec": "text",
}
"""The columns of a new job."""


class JobForm(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of live and ended jobs, their shared columns, and the condition for each state.

    `row` is that of a new job, in the order of the columns `new`. `cursor` names the column of the
    live ones' cursors.
    """

    live: JobTable
    ended: JobTable
    states: Mapping[JobState, str]
    read: Callable[[Sequence[Any]], Job]
    row: Callable[[Job], Row]
    new: Columns
    shared: Columns
    cursor: str = "cursor"
    all_columns: str = "*"


GREATEST: Final = 9_223_372_036_854_775_807
"""A due time after all others."""


def in_queue(queue: str) -> tuple[str, tuple[Value, ...]]:
    return "queue = ?", (queue,)


class WaitingList(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting jobs that one index holds: their condition, and how the index groups them.

    `of_queue` returns the condition, with its values, for jobs of one queue. `order` has the
    columns by which the index orders ready lists, each with its jobs by due time and id; `behind`
    is the condition, with the values of these columns, for what comes after a list.
    """

    index: str
    where: str
    groups: str = "queue, priority, lane"
    queue: str = "queue"
    lane: str = "lane"
    may_be_blocked: bool = False
    of_queue: Callable[[str], tuple[str, tuple[Value, ...]]] = in_queue
    order: tuple[str, ...] = ("queue", "priority", "lane")
    behind: str = f"(queue, priority, lane, due_at) > (?, ?, ?, {GREATEST})"


class Forms(msgspec.Struct, frozen=True, kw_only=True):
    """The forms of one database.

    `limit_assignments` sets the limits of a queue, with one value for each mark. `wait_columns` are
    those of a live job that change with its waits. `waiting_lists` together have each waiting job
    once. `has_rules` is the condition for paused or limited queues.
    `dead_letter_reason` selects the reason of a dead letter.
    """

    attempts: AttemptForm
    dead_letters: Form[DeadLetter]
    dispositions: DispositionForm
    jobs: JobForm
    transitions: Form[Transition]
    wait_columns: Columns
    waiting_lists: Sequence[WaitingList]
    has_rules: str = "paused OR limits IS NOT NULL"
    limit_assignments: str = "limits = ?"
    with_job_target: Callable[[str, TargetChange], str | None] = with_target
    schedule_key: str = "key"
    dead_letter_reason: str = "reason"
    schedule_spec: Callable[[Schedule], str] = spec_text
