"""Validates results from remote workers and writes them behind the fence."""

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec.json import encode

from onbeat.model.attempt import Attempt
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid, LeaseLost, Malformed, NotFound
from onbeat.model.ids import DeadLetterId, JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import REASON_CHARS_MAX, REQUEST_BYTES_MAX
from onbeat.model.outcome import Cancelled, Outcome, Snoozed, Succeeded
from onbeat.model.remote_task import RemoteFence
from onbeat.operations.context import OperationContext
from onbeat.operations.encryption import keep_letter
from onbeat.operations.fence import is_held_elsewhere, open_token
from onbeat.ports.store import Settlement
from onbeat.rules.derived_ids import derived_id
from onbeat.rules.settlement import attempt_of, settle
from onbeat.wire.broker_messages import RESULTS, SENSITIVE_MARK, TOKEN_HEADER, work_call
from onbeat.wire.values import job_id
from onbeat.wire.worker_results import WorkerReport, read_response

UNKNOWN_METHOD_DELAY: Final = timedelta(minutes=1)
"""How long a job waits for another worker when a worker did not know its task."""


class Verdict(Enum):
    """SETTLED: the result is stored, now or before. STALE: its attempt is no longer running.

    DEAD: it can never count, and was stored as a dead letter.
    """

    SETTLED = auto()
    STALE = auto()
    DEAD = auto()


class ResultJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a report, with the job's new state. `reason`: why a report does not count."""

    verdict: Verdict
    job: Job | None = None
    outcome: Outcome | None = None
    reason: str = ""


async def settle_result(
    context: OperationContext,
    message: bytes,
    *,
    token: str | None,
    headers: Mapping[str, str] | None = None,
) -> ResultJudgement:
    """Process a message of the results queue: a JSON-RPC response to the call of a job.

    It counts only for the running attempt and with the token that came with the call, or as the
    fence of `context` says. `token` is the transport's copy; without it the token is in the
    message. A message that can never count, such as one with a forged token, becomes a dead letter.
    A repeated message gets the same answer. Raises `Unavailable` when the store is away: the
    message has to be delivered again.
    """
    try:
        return await judge_message(context, message, token, headers)
    except (Invalid, NotFound, LeaseLost) as error:
        await dead_letter_result(context, message, str(error), headers or {})
        return ResultJudgement(verdict=Verdict.DEAD, reason=str(error))


async def judge_message(
    context: OperationContext,
    message: bytes,
    token: str | None,
    headers: Mapping[str, str] | None = None,
) -> ResultJudgement:
    """The same, but raises why a message can never count."""
    job, given, report = await read_and_find(context, message, token)
    judged = await judge(context, job, given, report)
    if report.unknown_method and judged.verdict is Verdict.SETTLED:
        await dead_letter_unknown(context, job, message, headers or {})
    return judged


async def read_and_find(
    context: OperationContext, message: bytes, token: str | None
) -> tuple[Job, Token, WorkerReport]:
    response = read_response(message, has_token=token is not None)
    id = job_id(response.id, "id")
    text = token if token is not None else response.token
    if text is None:
        check_fence(context.remote_fence, response.report)
    job = await context.store.job(id)
    if job is None:
        raise NotFound(f"Nothing has the id {response.id[:100]}")
    if text is None:
        return job, await token_of_attempt(context, job, response.report), response.report
    return job, await open_token(context.store, job.id, text), response.report


def check_fence(fence: RemoteFence, report: WorkerReport) -> None:
    """Raises `Malformed` where a result without a token can never count."""
    if fence is RemoteFence.TOKEN:
        raise Malformed(
            f"token is missing: a result counts only with the token of its call, in the header "
            f"{TOKEN_HEADER} or in the result or error; remote.fence can change that",
            "token",
        )
    if report.attempt is None:
        raise Malformed(
            "attempt is missing: a result counts only with the token or the attempt of its call",
            "attempt",
        )


async def token_of_attempt(context: OperationContext, job: Job, report: WorkerReport) -> Token:
    """The token of the newest lease under the attempt. Raises `LeaseLost` without any."""
    if job.state is JobState.RUNNING and report.attempt == job.attempt:
        return job.token
    for attempt in reversed(await context.store.attempts(job.id)):
        if report.attempt == attempt.number:
            return attempt.token
    raise LeaseLost(f"Job {job.id} has had no attempt {report.attempt}")


async def judge(
    context: OperationContext, job: Job, token: Token, report: WorkerReport
) -> ResultJudgement:
    """Store the outcome if it is from the running attempt; otherwise classify it.

    A renewal of the lease at the same time gives the job another holder, so it is looked at again.
    """
    holder = None
    while is_of_running(job, token, report) and job.worker != holder:
        holder, outcome = job.worker, effective(job, report)
        settled = await end_attempt(context, job, outcome)
        if settled is not None:
            return ResultJudgement(verdict=Verdict.SETTLED, job=settled, outcome=outcome)
        job = await context.store.job(job.id) or job
    return await judge_late(context, job.id, token, report)


async def end_attempt(context: OperationContext, job: Job, outcome: Outcome) -> Job | None:
    """The job after the end of its running attempt; None where another attempt runs now."""
    now = context.clock.now()
    settled = settle(job, outcome, now, context.randomness.fraction())
    attempt = attempt_of(job, outcome, now)
    (was_ours,) = await context.store.settle([Settlement(job=settled, attempt=attempt)])
    if not was_ours:
        return None
    context.faults.note(settled, attempt)
    report_ended(context, settled, outcome, attempt)
    return settled


def is_of_running(job: Job, token: Token, report: WorkerReport) -> bool:
    return (
        job.state is JobState.RUNNING
        and token == job.token
        and is_held_elsewhere(job)
        and report.attempt in {None, job.attempt}
    )


def effective(job: Job, report: WorkerReport) -> Outcome:
    """The outcome that counts: a job asked to stop that did not succeed is cancelled."""
    if isinstance(report.outcome, Succeeded | Cancelled):
        return report.outcome
    if job.cancel_reason is not None:
        return Cancelled(job.cancel_reason)
    return Snoozed(UNKNOWN_METHOD_DELAY) if report.unknown_method else report.outcome


def report_ended(context: OperationContext, job: Job, outcome: Outcome, attempt: Attempt) -> None:
    if context.telemetry is not None:
        took = attempt.finished_at - attempt.started_at
        context.telemetry.ended(job, outcome, took.total_seconds())


async def judge_late(
    context: OperationContext, id: JobId, token: Token, report: WorkerReport
) -> ResultJudgement:
    """A report of an attempt that is no longer running: a repeated one, or a late one."""
    job = await context.store.job(id)
    if job is None:
        return ResultJudgement(verdict=Verdict.STALE, reason=f"Job {id} is gone")
    for attempt in reversed(await context.store.attempts(id)):
        if token == attempt.token and report.attempt in {None, attempt.number}:
            if is_same(job, attempt, report):
                return ResultJudgement(verdict=Verdict.SETTLED, job=job, outcome=report.outcome)
            break
    if context.telemetry is not None:
        context.telemetry.lease_lost(job)
    return ResultJudgement(verdict=Verdict.STALE, job=job, reason=late_reason(job, token))


def is_same(job: Job, attempt: Attempt, report: WorkerReport) -> bool:
    """Whether the attempt ended as the report says.

    The report is settled again on the job as it ran, because settling truncates texts.
    """
    ran = msgspec.structs.replace(
        job, started_at=attempt.started_at, token=attempt.token, attempt=attempt.number
    )
    outcome = effective(ran, report)
    again = attempt_of(ran, outcome, attempt.finished_at)
    if (again.outcome, again.error) != (attempt.outcome, attempt.error):
        return False
    if not isinstance(outcome, Succeeded) or job.token != attempt.token:
        return True
    return outcome.result == job.result


def late_reason(job: Job, token: Token) -> str:
    if job.state is JobState.RUNNING and job.token == token and not is_held_elsewhere(job):
        return f"Job {job.id} was taken over by a worker that has the store"
    if job.state is JobState.RUNNING:
        return f"Job {job.id} runs as attempt {job.attempt} under another lease"
    return f"Job {job.id} is {job.state}: the lease of this attempt has ended"


async def settle_or_raise(
    context: OperationContext, job: Job, token: Token, report: WorkerReport, source: str
) -> Job:
    """The same for a caller that waits. Raises `LeaseLost` where the report does not count."""
    judged = await judge(context, job, token, report)
    if judged.verdict is not Verdict.SETTLED or judged.job is None:
        raise LeaseLost(judged.reason)
    if report.unknown_method:
        await dead_letter_unknown(context, job, encode(work_call(job)), {}, source)
    return judged.job


async def dead_letter_unknown(
    context: OperationContext,
    job: Job,
    body: bytes,
    headers: Mapping[str, str],
    source: str = RESULTS,
) -> None:
    """Only one per job, though the next worker may not know the task either."""
    letter = DeadLetter(
        id=DeadLetterId(derived_id(f"unknown method\n{job.id}", job.created_at)),
        at=context.clock.now(),
        source=source,
        reason=f"-32601: worker {job.worker} does not know the task of job {job.id}",
        body=body,
        headers=dict(headers) | (SENSITIVE_MARK if job.sensitive else {}),
    )
    await keep_letter(context.store, context.cipher, letter)
    context.on_dead_letter(letter)


async def dead_letter_result(
    context: OperationContext, body: bytes, reason: str, headers: Mapping[str, str]
) -> None:
    mark = SENSITIVE_MARK if await is_of_sensitive(context, body) else {}
    letter = DeadLetter(
        id=DeadLetterId(context.fresh_id()),
        at=context.clock.now(),
        source=RESULTS,
        reason=reason[:REASON_CHARS_MAX],
        body=body[:REQUEST_BYTES_MAX],
        headers=dict(headers) | mark,
    )
    await keep_letter(context.store, context.cipher, letter)
    context.on_dead_letter(letter)


async def is_of_sensitive(context: OperationContext, message: bytes) -> bool:
    """Whether the message names a sensitive job; one that cannot be read names none."""
    try:
        response = read_response(message, has_token=True)
        job = await context.store.job(job_id(response.id, "id"))
    except Invalid:
        return False
    return job is not None and job.sensitive
