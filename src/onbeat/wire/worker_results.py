"""Wire records of remote workers: claims, jobs and results."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.event import Event
from onbeat.model.job import Job, JobState
from onbeat.model.limits import (
    CLAIM_MAX,
    INTEGER_MAX,
    REASON_CHARS_MAX,
    RESULT_BYTES_MAX,
    RETRY_AFTER_MAX,
)
from onbeat.model.outcome import Cancelled, Failed, Outcome, Released, Snoozed, Succeeded
from onbeat.wire.broker_messages import work_call
from onbeat.wire.decode import decode
from onbeat.wire.jsonrpc import METHOD_NOT_FOUND, VERSION
from onbeat.wire.values import ANY_OBJECT, SpanForm, read_span, span_seconds

TASKS_MAX: Final = 1_000  # that one worker can run
QUEUES_MAX: Final = 1_000  # that one worker serves
TOKEN_CHARS_MAX: Final = 100  # a sealed token has at most 42

NumberForm = Annotated[
    int | str,
    Meta(description="A whole number, or one as text", extra_json_schema={"examples": [1]}),
]
TokenForm = Annotated[
    str,
    Meta(
        max_length=TOKEN_CHARS_MAX,
        description="The token that came with the job, as it came",
        examples=["1.mSg2vUKBsWqY3xkT0cJ5fA"],
    ),
]
LeaseForm = Annotated[
    str | float,
    Meta(
        description="How long the lease lasts unless it is renewed, from 1s to 1h",
        examples=["60s", "5m", 90],
    ),
]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker's own name, the tasks that it can run, and how many jobs it takes at once.

    With `wait` the answer comes when a job is due, or after `wait` without one.
    """

    worker: str
    tasks: Annotated[tuple[str, ...], Meta(min_length=1, max_length=TASKS_MAX)]
    queues: Annotated[tuple[str, ...], Meta(max_length=QUEUES_MAX)] | UnsetType | None = UNSET
    limit: Annotated[int, Meta(ge=1, le=CLAIM_MAX)] = 1
    lease: LeaseForm | UnsetType = UNSET
    wait: SpanForm | UnsetType = UNSET


class LeaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token of the job's claim, and how long its lease lasts from now."""

    token: TokenForm
    lease: LeaseForm | UnsetType = UNSET


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON-RPC error object, which may have further members.

    `retryable` false, here or in an object `data`, prevents another attempt; `retry_after` is the
    minimum wait before one.
    """

    code: int | str = 0
    message: str = ""
    data: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    retryable: bool | UnsetType = UNSET
    retry_after: SpanForm | UnsetType | None = UNSET
    attempt: NumberForm | UnsetType = UNSET
    token: TokenForm | UnsetType = UNSET


class SettleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of the attempt, one of: `result`, `error`, `snooze`, `cancel` with a reason, or
    `release` to return the job.
    """

    token: TokenForm
    attempt: NumberForm | UnsetType = UNSET
    result: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    error: ErrorBody | UnsetType = UNSET
    snooze: SpanForm | UnsetType = UNSET
    cancel: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | UnsetType = UNSET
    release: bool | UnsetType = UNSET


class WorkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A job to run, as a call like those over a broker, with its fencing token.

    `deadline` is the end of its timeout; after `lease_until` another worker gets the job unless the
    lease is renewed.
    """

    jsonrpc: str
    method: str
    params: Annotated[msgspec.Raw, Meta(extra_json_schema=ANY_OBJECT)]
    id: str
    token: str
    attempt: int
    deadline: datetime | None
    lease_until: datetime | None


class ClaimedAnswer(msgspec.Struct, frozen=True):
    jobs: tuple[WorkAnswer, ...]


class RenewedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A `cancel_reason` means that the job should stop."""

    lease_until: datetime
    cancel_reason: str | None


class SettledAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome is stored; `state` is the job's new state."""

    settled: bool
    state: JobState


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report on a job. `attempt` is the attempt that it reports on.

    With `unknown_method` the worker does not know the task.
    """

    outcome: Outcome
    attempt: int | None = None
    unknown_method: bool = False


class ResultMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON-RPC response to the call of a job."""

    jsonrpc: str
    id: str | int
    result: msgspec.Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET
    attempt: int | str | UnsetType = UNSET
    token: TokenForm | UnsetType = UNSET


def work_answer(job: Job, token: str, events: Sequence[Event] = ()) -> WorkAnswer:
    call = work_call(job, events)
    assert job.started_at is not None, "a claimed job has started"
    return WorkAnswer(
        jsonrpc=call["jsonrpc"],
        method=call["method"],
        params=msgspec.Raw(msgspec.json.encode(call["params"])),
        id=job.id,
        token=token,
        attempt=job.attempt,
        deadline=None if job.timeout is None else job.started_at + job.timeout,
        lease_until=job.lease_until,
    )


def read_number(value: int | str, field: str) -> int:
    """A whole number, possibly as text."""
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= INTEGER_MAX):
        raise Malformed(f"{field} must be a whole number", field)
    return int(text)


def read_report(body: SettleBody) -> WorkerReport:
    """Raises `Invalid` unless there is exactly one outcome."""
    attempt = None if body.attempt is UNSET else read_number(body.attempt, "attempt")
    answer = {
        "result": body.result is not UNSET,
        "error": body.error is not UNSET,
        "snooze": body.snooze is not UNSET,
        "cancel": body.cancel is not UNSET,
        "release": body.release is True,
    }
    if sum(answer.values()) != 1:
        raise Invalid(f"Give one of {', '.join(answer)}, not {sum(answer.values())}", "result")
    if body.error is not UNSET:
        return read_error(body.error, attempt)
    return WorkerReport(outcome=read_outcome(body), attempt=attempt)


def read_outcome(body: SettleBody) -> Outcome:
    if body.result is not UNSET:
        return Succeeded(read_result(body.result))
    if body.snooze is not UNSET:
        return Snoozed(read_span(body.snooze, "snooze"))
    if body.cancel is not UNSET:
        return Cancelled(body.cancel or "cancelled by its worker")
    return Released()


def read_result(result: msgspec.Raw) -> msgspec.Raw | None:
    text = msgspec.json.format(bytes(result), indent=-1)
    if len(text) > RESULT_BYTES_MAX:
        raise TooLarge(f"result may have at most {RESULT_BYTES_MAX} bytes", "result")
    return None if text == b"null" else msgspec.Raw(text)


def read_error(error: ErrorBody, attempt: int | None) -> WorkerReport:
    more: Mapping[str, Any] = {}
    shown = ""
    if error.data is not UNSET:
        data: object = msgspec.json.decode(error.data)
        shown = f"{data if isinstance(data, str) else bytes(error.data).decode()}\n"
        more = cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}
    retryable = error.retryable if error.retryable is not UNSET else more.get("retryable", True)
    failed = Failed(
        # The most informative line comes last, as in a traceback.
        error=f"{shown}{error.message or 'no message'} (code {error.code})",
        retryable=retryable is not False,
        retry_after=read_wait(error, more),
    )
    is_unknown = str(error.code) == str(METHOD_NOT_FOUND)
    return WorkerReport(outcome=failed, attempt=attempt, unknown_method=is_unknown)


def read_wait(error: ErrorBody, more: Mapping[str, Any]) -> timedelta | None:
    """The minimum wait before another attempt; ignores a bad `retry_after` in `data`."""
    if error.retry_after is not UNSET and error.retry_after is not None:
        return min(read_span(error.retry_after, "error.retry_after"), RETRY_AFTER_MAX)
    answer = more.get("retry_after")
    seconds = span_seconds(answer) if isinstance(answer, str | float | int) else None
    if seconds is None or not 0 <= seconds <= RETRY_AFTER_MAX.total_seconds():
        return None
    return timedelta(seconds=seconds)


class WorkerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the results queue: its job, its token and its report.

    `token` is None if the message contains none.
    """

    id: str
    token: str | None
    report: WorkerReport


def read_response(message: bytes, *, has_token: bool) -> WorkerResponse:
    """Raises `Invalid` for a message that is no response: neither result nor error, or both.

    With `has_token` the transport delivered the token, and a member `token` belongs to the result.
    """
    read = decode(ResultMessage, message)
    if read.jsonrpc != VERSION:
        raise Invalid('jsonrpc must be "2.0"', "jsonrpc")
    if (read.result is UNSET) is (read.error is UNSET):
        raise Invalid("A response has either a result or an error", "result")
    if read.error is not UNSET:
        inside = Fenced(attempt=read.error.attempt, token=read.error.token)
    else:
        inside = read_fence(read.result, has_token=has_token)
    token = read.token if inside.token is UNSET else inside.token
    return WorkerResponse(
        id=str(read.id),
        token=None if token is UNSET else token,
        report=report_of(read, inside),
    )


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt and the token inside a result or an error, and the rest."""

    attempt: int | str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    rest: msgspec.Raw = msgspec.Raw()


def report_of(read: ResultMessage, inside: Fenced) -> WorkerReport:
    field = "error.attempt" if read.result is UNSET else "result.attempt"
    attempt = None
    if inside.attempt is not UNSET:
        attempt = read_number(inside.attempt, field)
    elif read.attempt is not UNSET:
        attempt = read_number(read.attempt, "attempt")
    if read.error is not UNSET:
        return read_error(read.error, attempt)
    return WorkerReport(outcome=outcome_of(inside.rest), attempt=attempt)


def read_fence(result: msgspec.Raw | UnsetType, *, has_token: bool) -> Fenced:
    """The attempt and the token inside a result, and the result without them."""
    assert result is not UNSET
    if not bytes(result).startswith(b"{"):
        return Fenced(rest=result)
    members = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    attempt = pop_member(members, "attempt", int | str, "a whole number")
    token = (
        UNSET if has_token else pop_member(members, "token", str, "the text that came with the job")
    )
    if attempt is UNSET and token is UNSET:
        return Fenced(rest=result)
    return Fenced(attempt=attempt, token=token, rest=msgspec.Raw(msgspec.json.encode(members)))


def pop_member(members: dict[str, msgspec.Raw], name: str, kind: Any, form: str) -> Any:
    given = members.pop(name, None)
    if given is None:
        return UNSET
    value: object = msgspec.json.decode(given)
    if not isinstance(value, kind):
        raise Malformed(f"result.{name} must be {form}", f"result.{name}")
    return value


def outcome_of(result: msgspec.Raw) -> Outcome:
    """A result that is too large fails permanently: a retry would produce the same size."""
    try:
        return Succeeded(read_result(result))
    except TooLarge as error:
        return Failed(str(error), retryable=False)
