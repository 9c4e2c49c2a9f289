"""What workers in any language are given, and what they say became of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import (
    CLAIM_MAX,
    INTEGER_MAX,
    REASON_CHARS_MAX,
    RESULT_BYTES_MAX,
    RETRY_AFTER_MAX,
)
from onbeat.model.outcome import Cancelled, Failed, Outcome, Released, Snoozed, Succeeded
from onbeat.wire.decoding import decode
from onbeat.wire.jsonrpc import METHOD_NOT_FOUND, VERSION
from onbeat.wire.values import SpanForm, read_span, span_seconds
from onbeat.wire.work import work_call

TASKS_MAX: Final = 1_000  # that one worker offers to run
QUEUES_MAX: Final = 1_000  # that one worker serves

NumberForm = Annotated[
    int | str,
    Meta(description="A whole number, or one as text", extra_json_schema={"examples": [1]}),
]
LeaseForm = Annotated[
    str | float,
    Meta(
        description="How long the lease lasts unless it is renewed, from 1s to 1h",
        examples=["60s", "5m", 90],
    ),
]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker by a name of its own, the tasks that it can run, and how much it takes at once.

    With `wait` the answer comes when a job is due, at the latest after so long.
    """

    worker: str
    tasks: Annotated[tuple[str, ...], Meta(min_length=1, max_length=TASKS_MAX)]
    queues: Annotated[tuple[str, ...], Meta(max_length=QUEUES_MAX)] | UnsetType | None = UNSET
    limit: Annotated[int, Meta(ge=1, le=CLAIM_MAX)] = 1
    lease: LeaseForm | UnsetType = UNSET
    wait: SpanForm | UnsetType = UNSET


class LeaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token that the job was given out with, and how long its lease shall last from now."""

    token: NumberForm
    lease: LeaseForm | UnsetType = UNSET


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error object of JSON-RPC, which may have further members.

    With `retryable` false, here or in an object as `data`, another attempt cannot help;
    `retry_after` is the least wait before one.
    """

    code: int | str = 0
    message: str = ""
    data: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    retryable: bool | UnsetType = UNSET
    retry_after: SpanForm | UnsetType | None = UNSET
    attempt: NumberForm | UnsetType = UNSET


class SettleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the attempt came to, one of: `result`, `error`, `snooze`, `cancel` with a reason, or
    `release` to hand it back undone.
    """

    token: NumberForm
    attempt: NumberForm | UnsetType = UNSET
    result: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    error: ErrorBody | UnsetType = UNSET
    snooze: SpanForm | UnsetType = UNSET
    cancel: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | UnsetType = UNSET
    release: bool | UnsetType = UNSET


class WorkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A job to run, as the call that a broker would bring, with the token that fences it.

    `deadline` is when its timeout has passed; `lease_until` is when it goes to somebody else
    unless it is renewed.
    """

    jsonrpc: str
    method: str
    params: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
    id: str
    token: int
    attempt: int
    deadline: datetime | None
    lease_until: datetime | None


class ClaimedAnswer(msgspec.Struct, frozen=True):
    jobs: tuple[WorkAnswer, ...]


class RenewedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """With a `cancel_reason` somebody has asked for the job to be stopped."""

    lease_until: datetime
    cancel_reason: str | None


class SettledAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome is stored; `state` is how the job stands now."""

    settled: bool
    state: JobState


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says became of a job. `attempt` is the one that it speaks of.

    With `unknown_method` it does not know the task after all.
    """

    outcome: Outcome
    attempt: int | None = None
    unknown_method: bool = False


class ResultMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A response of JSON-RPC, to the call that gave out the job."""

    jsonrpc: str
    id: str | int
    result: msgspec.Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET
    attempt: int | str | UnsetType = UNSET


def work_answer(job: Job) -> WorkAnswer:
    call = work_call(job)
    assert job.started_at is not None, "a claimed job has started"
    return WorkAnswer(
        jsonrpc=call["jsonrpc"],
        method=call["method"],
        params=msgspec.Raw(msgspec.json.encode(call["params"])),
        id=job.id,
        token=job.token,
        attempt=job.attempt,
        deadline=None if job.timeout is None else job.started_at + job.timeout,
        lease_until=job.lease_until,
    )


def read_number(value: int | str, field: str) -> int:
    """A whole number that may come as text."""
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= INTEGER_MAX):
        raise Malformed(f"{field} must be a whole number", field)
    return int(text)


def read_token(value: int | str) -> Token:
    return Token(read_number(value, "token"))


def read_report(body: SettleBody) -> Report:
    """Raises `Invalid` unless exactly one outcome is told."""
    attempt = None if body.attempt is UNSET else read_number(body.attempt, "attempt")
    told = {
        "result": body.result is not UNSET,
        "error": body.error is not UNSET,
        "snooze": body.snooze is not UNSET,
        "cancel": body.cancel is not UNSET,
        "release": body.release is True,
    }
    if sum(told.values()) != 1:
        raise Invalid(f"Give one of {', '.join(told)}, not {sum(told.values())}", "result")
    if body.error is not UNSET:
        return read_error(body.error, attempt)
    return Report(outcome=read_outcome(body), attempt=attempt)


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


def read_error(error: ErrorBody, attempt: int | None) -> Report:
    more: Mapping[str, Any] = {}
    shown = ""
    if error.data is not UNSET:
        data: object = msgspec.json.decode(error.data)
        shown = f"{data if isinstance(data, str) else bytes(error.data).decode()}\n"
        more = cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}
    retryable = error.retryable if error.retryable is not UNSET else more.get("retryable", True)
    failed = Failed(
        # The line that says most comes last, as in a traceback.
        error=f"{shown}{error.message or 'no message'} (code {error.code})",
        retryable=retryable is not False,
        retry_after=read_wait(error, more),
    )
    is_unknown = str(error.code) == str(METHOD_NOT_FOUND)
    return Report(outcome=failed, attempt=attempt, unknown_method=is_unknown)


def read_wait(error: ErrorBody, more: Mapping[str, Any]) -> timedelta | None:
    """The least wait before another attempt; what stands in `data` may mean something else."""
    if error.retry_after is not UNSET and error.retry_after is not None:
        return min(read_span(error.retry_after, "error.retry_after"), RETRY_AFTER_MAX)
    told = more.get("retry_after")
    seconds = span_seconds(told) if isinstance(told, str | float | int) else None
    if seconds is None or not 0 <= seconds <= RETRY_AFTER_MAX.total_seconds():
        return None
    return timedelta(seconds=seconds)


def read_response(message: bytes) -> tuple[str, Report]:
    """The id and the report of a message on the results queue.

    Raises `Invalid` for one that is no response: with neither result nor error, or both.
    """
    told = decode(ResultMessage, message)
    if told.jsonrpc != VERSION:
        raise Invalid('jsonrpc must be "2.0"', "jsonrpc")
    if (told.result is UNSET) is (told.error is UNSET):
        raise Invalid("A response has either a result or an error", "result")
    outside = None if told.attempt is UNSET else read_number(told.attempt, "attempt")
    if told.error is not UNSET:
        inside = told.error.attempt
        attempt = outside if inside is UNSET else read_number(inside, "error.attempt")
        return str(told.id), read_error(told.error, attempt)
    result, attempt = without_attempt(told.result)
    report = Report(outcome=outcome_of(result), attempt=outside if attempt is None else attempt)
    return str(told.id), report


def without_attempt(result: msgspec.Raw | UnsetType) -> tuple[msgspec.Raw, int | None]:
    """The result and the attempt that stood in it, which is no part of it."""
    assert result is not UNSET
    if not bytes(result).startswith(b"{"):
        return result, None
    members = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    given = members.pop("attempt", None)
    if given is None:
        return result, None
    attempt: object = msgspec.json.decode(given)
    if not isinstance(attempt, int | str):
        raise Malformed("result.attempt must be a whole number", "result.attempt")
    return msgspec.Raw(msgspec.json.encode(members)), read_number(attempt, "result.attempt")


def outcome_of(result: msgspec.Raw) -> Outcome:
    """A result that cannot be kept will not be smaller the next time."""
    try:
        return Succeeded(read_result(result))
    except TooLarge as error:
        return Failed(str(error), retryable=False)
