"""Wire records of jobs: the body that a caller sends, and the answer with its history."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.errors import Invalid
from onbeat.model.flow import SENT, Awaited
from onbeat.model.held_key import ALWAYS
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.limits import AFTER_MAX, BULK_JOBS_MAX, REASON_CHARS_MAX
from onbeat.model.target import Target
from onbeat.model.transition import Transition
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.conditions import (
    ConditionAnswer,
    ConditionBody,
    WindowAnswer,
    WindowForm,
    condition_answer,
    hidden_condition,
    window_answer,
)
from onbeat.wire.hidden import NOT_SHOWN_JSON, SensitiveForm, hidden_answer
from onbeat.wire.options import (
    ALWAYS_TEXT,
    read_given,
    read_job_name,
    read_moment,
    read_wait,
    readers_of,
)
from onbeat.wire.targets import (
    ArgsForm,
    KwargsForm,
    RetryBody,
    TargetAnswer,
    TargetBody,
    handler_target,
    read_target,
    target_answer,
)
from onbeat.wire.values import InstantForm, PriorityForm, SpanForm, span_text, value_or_unset

GroupForm = Annotated[
    str, Meta(description="Shares its queue's limits for groups with the jobs of the same name")
]
UniqueForForm = Annotated[
    str | float,
    Meta(
        description="How long the key stays taken after the end of the job: a span, or `always`",
        examples=["31d", "always"],
    ),
]
NameForm = Annotated[
    str, Meta(description="What the other jobs of the request, and of its flow, call it")
]
NO_RESULT: Final = msgspec.Raw(b"null")


class EdgeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that another comes after, by name or id, and the end of it that it needs."""

    job: str
    on: Edge = Edge.SUCCESS


class OptionsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how a job runs."""

    run_at: InstantForm | UnsetType | None = UNSET
    delay: SpanForm | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    priority: PriorityForm | UnsetType | None = UNSET
    unique: str | UnsetType | None = UNSET
    unique_for: UniqueForForm | UnsetType | None = UNSET
    retry: RetryBody | UnsetType | None = UNSET
    timeout: SpanForm | UnsetType | None = UNSET
    expires_at: InstantForm | UnsetType | None = UNSET
    name: NameForm | UnsetType | None = UNSET
    after: Annotated[tuple[str | EdgeBody, ...], Meta(max_length=AFTER_MAX)] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType | None = UNSET
    condition: ConditionBody | UnsetType | None = UNSET
    window: WindowForm | UnsetType | None = UNSET
    sensitive: SensitiveForm = UNSET
    group: GroupForm | UnsetType | None = UNSET


class JobBody(OptionsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to enqueue: a `task` with its arguments, or a `target`; when and how it runs."""

    task: str | UnsetType = UNSET
    args: ArgsForm = UNSET
    kwargs: KwargsForm = UNSET
    target: TargetBody | UnsetType = UNSET


class EnqueueBody(JobBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job, or many as `jobs`; not both."""

    jobs: (
        Annotated[tuple[JobBody, ...], Meta(min_length=1, max_length=BULK_JOBS_MAX)] | UnsetType
    ) = UNSET
    flow: (
        Annotated[bool, Meta(description="Give the jobs a flow, which those with names have")]
        | UnsetType
    ) = UNSET


class ReasonBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason, for the history."""

    reason: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | UnsetType | None = UNSET


class CancelJobBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason, for the history. `dependents`, which end with the job, may only be true."""

    reason: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | UnsetType | None = UNSET
    dependents: bool | UnsetType = UNSET


class RetryJobBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the jobs that were cancelled because of this one wait again with it."""

    dependents: bool = True


class RescheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the job is to be due: at an instant, or so long from now."""

    run_at: InstantForm | UnsetType | None = UNSET
    delay: SpanForm | UnsetType | None = UNSET


class JobDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A validated job of a caller.

    `options` has the other fields of the job that were given; the defaults of its task apply to the
    rest, and to a `retry` that is UNSET.
    """

    target: Target
    run_at: datetime | None = None
    delay: timedelta | None = None
    retry: RetryBody | UnsetType = UNSET
    after: tuple[Awaited, ...] = ()
    options: dict[str, Any] = {}


class AttemptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt; `finished` and `outcome` are null while it runs, `error` without a reason."""

    number: int
    worker: str | None
    started: datetime
    finished: datetime | None = None
    outcome: OutcomeName | None = None
    error: str | None = None


class ProgressAnswer(msgspec.Struct, frozen=True):
    done: float
    total: float | None


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the history of a job."""

    at: datetime
    to: str
    cause: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    worker: str | UnsetType = UNSET


class JobInfo(AnswerRecord, frozen=True, kw_only=True):
    """A job as shown in answers."""

    id: str
    state: JobState
    reason: str | None
    target: TargetAnswer
    queue: str
    priority: int
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    attempts_max: int
    result_json: Annotated[msgspec.Raw, Meta(description="Any JSON; null while there is none")] = (
        msgspec.field(name="result")
    )
    error: str | None
    fault: (
        Annotated[str, Meta(description="What its last failure has in common with others")]
        | UnsetType
    ) = UNSET
    progress: ProgressAnswer | None
    schedule_id: str | None
    occurrence: datetime | None
    unique: str | None
    unique_for: str | None
    name: str | None
    after: tuple[str | EdgeBody, ...]
    expires_at: datetime | None
    cause_id: (
        Annotated[str, Meta(description="The job whose end cancelled this one")] | UnsetType
    ) = UNSET
    cancel_reason: str | UnsetType = UNSET
    labels: dict[str, str]
    condition: ConditionAnswer | UnsetType = UNSET
    window: tuple[WindowAnswer, ...] | UnsetType = UNSET
    sensitive: bool | UnsetType = UNSET
    group: str | None
    traceparent: (
        Annotated[str, Meta(description="The trace context of its sender, as W3C writes it")]
        | UnsetType
    ) = UNSET
    tracestate: (
        Annotated[str, Meta(description="What other systems put beside the traceparent")]
        | UnsetType
    ) = UNSET
    flow: str | None
    attempts: tuple[AttemptAnswer, ...] | UnsetType = UNSET
    history: tuple[HistoryEntry, ...] | UnsetType = UNSET

    @property
    def result(self) -> Any:
        """In plain JSON values; None while there is none."""
        return plain_value(self.result_json)


JOB_READERS: Final = readers_of(OptionsBody, name=read_job_name)


def read_jobs(body: EnqueueBody) -> tuple[JobDraft, ...]:
    """One draft, or one for each of `jobs`; errors name the job by its index."""
    if body.jobs is UNSET:
        return (read_job(body),)
    others = [
        name
        for name in body.__struct_fields__
        if name not in {"jobs", "flow"} and getattr(body, name) is not UNSET
    ]
    if others:
        raise Invalid(f"Give jobs, or one job: {others[0]} is given beside jobs", others[0])
    return tuple(read_job(job, f"jobs[{place}].") for place, job in enumerate(body.jobs))


def read_job(body: JobBody, prefix: str = "") -> JobDraft:
    return read_draft(body, read_job_target(body, prefix), prefix)


def read_draft(body: OptionsBody, target: Target, prefix: str = "") -> JobDraft:
    """The job for `target`, with the other fields of `body`."""
    delay = None if body.delay is UNSET else body.delay
    draft = JobDraft(
        target=target,
        run_at=read_moment(body.run_at or None, f"{prefix}run_at"),
        delay=read_wait(delay, f"{prefix}delay") or None,
        retry=body.retry or UNSET,
    )
    if draft.run_at and draft.delay:
        raise Invalid("Give run_at or delay, not both", f"{prefix}delay")
    given = read_given(body, JOB_READERS, prefix)
    refuse_no_key(given, f"{prefix}unique_for")
    return replace(draft, after=given.pop("after", ()), options=given)


def refuse_no_key(options: Mapping[str, Any], field: str) -> None:
    if options.get("unique_for") is not None and options.get("unique") is None:
        raise Invalid("unique_for says how long a unique key stays taken; give unique", field)


def read_job_target(body: JobBody, prefix: str) -> Target:
    if body.task is not UNSET:
        if body.target is not UNSET:
            raise Invalid("Give task or target, not both", f"{prefix}target")
        return handler_target(body.task, body.args, body.kwargs, prefix.removesuffix("."))
    if body.target is UNSET:
        raise Invalid("A job needs a task or a target", f"{prefix}task")
    if body.args is not UNSET or body.kwargs is not UNSET:
        raise Invalid("args and kwargs go with task, or inside target", f"{prefix}args")
    return read_target(body.target, f"{prefix}target")


def read_due(body: RescheduleBody) -> tuple[datetime | None, timedelta | None]:
    """The instant or the wait, of which exactly one is given."""
    run_at = read_moment(body.run_at or None, "run_at")
    delay = None if body.delay is UNSET or body.delay is None else read_wait(body.delay, "delay")
    if (run_at is None) == (delay is None):
        raise Invalid("Give run_at or delay: one of both", "run_at")
    return run_at, delay


def read_reason(body: ReasonBody | CancelJobBody, default: str) -> str:
    return body.reason or default


def check_dependents(body: CancelJobBody) -> None:
    """Raises `Invalid` where jobs that need this one's success are to go on without it."""
    if body.dependents is False:
        raise Invalid(
            "dependents must be true: jobs that need this one to succeed are cancelled with it",
            "dependents",
        )


def job_answer(job: Job) -> JobInfo:
    info = JobInfo(
        id=job.id,
        state=job.state,
        reason=job.reason,
        target=target_answer(job.target),
        queue=job.queue,
        priority=job.priority,
        run_at=job.due_at,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        attempt=job.attempt,
        attempts_max=job.retry.attempts_max,
        result_json=NO_RESULT if job.result is None else job.result,
        error=job.error,
        fault=UNSET if job.fault is None else str(job.fault),
        progress=ProgressAnswer(job.progress.done, job.progress.total) if job.progress else None,
        schedule_id=job.schedule_id,
        occurrence=job.occurrence,
        unique=job.unique,
        unique_for=unique_for_answer(job.unique_for),
        name=job.name,
        after=edges_of(job),
        cause_id=value_or_unset(job.cause_id),
        expires_at=job.expires_at,
        cancel_reason=value_or_unset(job.cancel_reason),
        labels=job.labels,
        condition=condition_answer(job.condition),
        window=window_answer(job.window),
        sensitive=job.sensitive or UNSET,
        group=job.group,
        traceparent=value_or_unset(job.traceparent),
        tracestate=value_or_unset(job.tracestate),
        flow=job.flow,
    )
    return hidden_info(info) if job.sensitive else info


def hidden_info(info: JobInfo) -> JobInfo:
    """The answer without what a sensitive job works on, and gives. Its errors are not stored."""
    return replace(
        info,
        target=hidden_answer(info.target),
        condition=hidden_condition(info.condition),
        result_json=info.result_json if info.result_json == NO_RESULT else NOT_SHOWN_JSON,
    )


def unique_for_answer(span: timedelta | None) -> str | None:
    if span is None:
        return None
    return ALWAYS_TEXT if span == ALWAYS else span_text(span)


def edges_of(job: Job) -> tuple[str | EdgeBody, ...]:
    """What the job comes after, as a caller writes it."""
    edges = tuple(edge_answer(other, job.edge_to(other)) for other in job.after)
    if job.awaits_flow is None:
        return edges
    return (*edges, edge_answer(SENT, job.edge_to(job.awaits_flow)))


def edge_answer(other: str, on: Edge) -> str | EdgeBody:
    """Plain for the common edge, as a caller writes it."""
    return other if on is Edge.SUCCESS else EdgeBody(other, on)


def job_detail(job: Job, attempts: Sequence[Attempt], transitions: Sequence[Transition]) -> JobInfo:
    """The job with its attempts and history."""
    return replace(
        job_answer(job),
        attempts=(*map(attempt_answer, attempts), *running_attempt(job)),
        history=job_history(job, attempts, transitions),
    )


def attempt_answer(attempt: Attempt) -> AttemptAnswer:
    return AttemptAnswer(
        number=attempt.number,
        worker=attempt.worker,
        started=attempt.started_at,
        finished=attempt.finished_at,
        outcome=attempt.outcome,
        error=attempt.error,
    )


def running_attempt(job: Job) -> tuple[AttemptAnswer, ...]:
    if job.state is not JobState.RUNNING or job.started_at is None:
        return ()
    return (AttemptAnswer(number=job.attempt, worker=job.worker, started=job.started_at),)


def job_history(
    job: Job, attempts: Sequence[Attempt], transitions: Sequence[Transition]
) -> tuple[HistoryEntry, ...]:
    """The history from enqueue to now, in order of time."""
    entries = [HistoryEntry(at=job.created_at, to=JobState.WAITING, cause="enqueued")]
    for attempt in attempts:
        entries += attempt_history(attempt, job.state if attempt.ended(job) else None)
    entries += [
        HistoryEntry(
            at=attempt.started,
            to=JobState.RUNNING,
            attempt=attempt.number,
            worker=value_or_unset(attempt.worker),
        )
        for attempt in running_attempt(job)
    ]
    entries += [
        HistoryEntry(
            at=step.at,
            to=step.to,
            cause=value_or_unset(step.cause),
            attempt=value_or_unset(step.attempt),
            worker=value_or_unset(step.worker),
        )
        for step in transitions
    ]
    return tuple(sorted(entries, key=lambda entry: entry.at))


def attempt_history(attempt: Attempt, ended: JobState | None) -> tuple[HistoryEntry, HistoryEntry]:
    """The start and the end of one attempt; `ended` is the job's state if the attempt ended it."""
    worker = value_or_unset(attempt.worker)
    return (
        HistoryEntry(
            at=attempt.started_at, to=JobState.RUNNING, attempt=attempt.number, worker=worker
        ),
        HistoryEntry(
            at=attempt.finished_at,
            to=ended or after_outcome(attempt.outcome),
            cause=f"{attempt.outcome}: {attempt.error}" if attempt.error else attempt.outcome,
            attempt=attempt.number,
            worker=worker,
        ),
    )


def after_outcome(outcome: OutcomeName) -> JobState:
    """The job's state after an attempt that did not end it for good: waiting, or ended before."""
    match outcome:
        case OutcomeName.SUCCEEDED:
            return JobState.SUCCEEDED
        case OutcomeName.CANCELLED:
            return JobState.CANCELLED
        case _:
            return JobState.WAITING
