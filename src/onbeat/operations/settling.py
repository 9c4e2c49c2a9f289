"""What remote workers say became of their jobs: judged, and written behind the fence."""

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec.json import encode

from onbeat.model.attempt import Attempt
from onbeat.model.errors import Invalid, LeaseLost, Malformed, NotFound
from onbeat.model.ids import JobId, LetterId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.letter import DeadLetter
from onbeat.model.limits import REASON_CHARS_MAX
from onbeat.model.outcome import Cancelled, Outcome, Snoozed, Succeeded
from onbeat.operations.operator import Operator
from onbeat.ports.store import Settlement
from onbeat.rules.deriving import derived_id
from onbeat.rules.settling import attempt_of, settle
from onbeat.wire.reports import Report, read_response
from onbeat.wire.values import job_id
from onbeat.wire.work import RESULTS, work_call

UNKNOWN_METHOD_DELAY: Final = timedelta(minutes=1)
"""How long a job waits whose worker did not know its task, for another one to come."""


class Verdict(Enum):
    """SETTLED: it is stored, now or before. STALE: it speaks of an attempt that has passed.

    DEAD: it can never count, and was put aside.
    """

    SETTLED = auto()
    STALE = auto()
    DEAD = auto()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a report. `job` is as it then stands; `reason` says why it does not count."""

    verdict: Verdict
    job: Job | None = None
    outcome: Outcome | None = None
    reason: str = ""


async def settle_result(
    operator: Operator,
    message: bytes,
    *,
    token: int | None,
    headers: Mapping[str, str] | None = None,
) -> Judged:
    """Act on a message of the results queue: a JSON-RPC response to the call of a job.

    It counts only for the attempt that runs: by its `token` where the transport brought one, else
    by the number of the attempt in it. What can never count is put aside as a dead letter. Told
    again, it is answered as the first time. Raises `Unavailable` when the store is away: the
    message has to be delivered again.
    """
    try:
        return await judge_message(operator, message, token, headers)
    except (Invalid, NotFound) as error:
        await bury_result(operator, message, str(error), headers or {})
        return Judged(verdict=Verdict.DEAD, reason=str(error))


async def judge_message(
    operator: Operator,
    message: bytes,
    token: int | None,
    headers: Mapping[str, str] | None = None,
) -> Judged:
    """The same, but raises why a message can never count."""
    job, report = await read_and_found(operator, message, token)
    judged = await judge(operator, job, None if token is None else Token(token), report)
    if report.unknown_method and judged.verdict is Verdict.SETTLED:
        await bury_unknown(operator, job, message, headers or {})
    return judged


async def read_and_found(
    operator: Operator, message: bytes, token: int | None
) -> tuple[Job, Report]:
    text, report = read_response(message)
    if report.attempt is None and token is None:
        raise Malformed("attempt is missing: a result counts only with its attempt", "attempt")
    job = await operator.store.job(job_id(text, "id"))
    if job is None:
        raise NotFound(f"Nothing has the id {text[:100]}")
    return job, report


async def judge(operator: Operator, job: Job, token: Token | None, report: Report) -> Judged:
    """Write the outcome if it is of the attempt that runs; else say what it is."""
    if is_of_running(job, token, report):
        outcome = effective(job, report)
        now = operator.clock.now()
        settled = settle(job, outcome, now, operator.chance.fraction())
        attempt = attempt_of(job, outcome, now)
        (was_ours,) = await operator.store.settle([Settlement(job=settled, attempt=attempt)])
        if was_ours:
            tell(operator, settled, outcome, attempt)
            return Judged(verdict=Verdict.SETTLED, job=settled, outcome=outcome)
    return await judge_late(operator, job.id, token, report)


def is_of_running(job: Job, token: Token | None, report: Report) -> bool:
    return (
        job.state is JobState.RUNNING
        and token in {None, job.token}
        and report.attempt in {None, job.attempt}
    )


def effective(job: Job, report: Report) -> Outcome:
    """What counts: one who was asked to stop, and has not succeeded, has stopped."""
    if isinstance(report.outcome, Succeeded | Cancelled):
        return report.outcome
    if job.cancel_reason is not None:
        return Cancelled(job.cancel_reason)
    return Snoozed(UNKNOWN_METHOD_DELAY) if report.unknown_method else report.outcome


def tell(operator: Operator, job: Job, outcome: Outcome, attempt: Attempt) -> None:
    if operator.telemetry is not None:
        operator.telemetry.ended(job, outcome, attempt.finished_at - attempt.started_at)


async def judge_late(operator: Operator, id: JobId, token: Token | None, report: Report) -> Judged:
    """A report of an attempt that no longer runs: the same one once more, or one too late."""
    job = await operator.store.job(id)
    if job is None:
        return Judged(verdict=Verdict.STALE, reason=f"Job {id} is gone")
    for attempt in reversed(await operator.store.attempts(id)):
        if token in {None, attempt.token} and report.attempt in {None, attempt.number}:
            if is_same(job, attempt, report):
                return Judged(verdict=Verdict.SETTLED, job=job, outcome=report.outcome)
            break
    if operator.telemetry is not None:
        operator.telemetry.lease_lost(job)
    return Judged(verdict=Verdict.STALE, job=job, reason=told_late(job))


def is_same(job: Job, attempt: Attempt, report: Report) -> bool:
    """Whether the attempt ended as the report says.

    What it says is settled once more on the job as it ran, for the texts are cut on the way.
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


def told_late(job: Job) -> str:
    if job.state is JobState.RUNNING:
        return f"Job {job.id} runs as attempt {job.attempt} under another lease"
    return f"Job {job.id} is {job.state}: the lease of this attempt has ended"


async def settled_or_lost(
    operator: Operator, job: Job, token: Token, report: Report, source: str
) -> Job:
    """The same for a caller who waits. Raises `LeaseLost` where the report does not count."""
    judged = await judge(operator, job, token, report)
    if judged.verdict is not Verdict.SETTLED or judged.job is None:
        raise LeaseLost(judged.reason)
    if report.unknown_method:
        await bury_unknown(operator, job, encode(work_call(job)), {}, source)
    return judged.job


async def bury_unknown(
    operator: Operator,
    job: Job,
    body: bytes,
    headers: Mapping[str, str],
    source: str = RESULTS,
) -> None:
    """Once for each job, though the next worker may not know the task either."""
    letter = DeadLetter(
        id=LetterId(derived_id(f"unknown method\n{job.id}", job.created_at)),
        at=operator.clock.now(),
        source=source,
        reason=f"-32601: worker {job.worker} does not know the task of job {job.id}",
        body=body,
        headers=dict(headers),
    )
    await operator.store.bury([letter])
    operator.buried(letter)


async def bury_result(
    operator: Operator, body: bytes, reason: str, headers: Mapping[str, str]
) -> None:
    letter = DeadLetter(
        id=LetterId(operator.fresh_id()),
        at=operator.clock.now(),
        source=RESULTS,
        reason=reason[:REASON_CHARS_MAX],
        body=body,
        headers=dict(headers),
    )
    await operator.store.bury([letter])
    operator.buried(letter)
