"""Settlement: from a job and the outcome of its attempt to the job's next stored form."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.credentials import NOT_SHOWN
from onbeat.model.job import Job, JobState
from onbeat.model.limits import (
    ERROR_CHARS_MAX,
    ERROR_LINE_CHARS_MAX,
    REASON_CHARS_MAX,
    RELEASED_MAX,
    SPAN_MAX,
)
from onbeat.model.outcome import (
    Cancelled,
    Evidence,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.worker import is_carried, is_remote
from onbeat.rules.condition import FAILED as CONDITION_FAILED
from onbeat.rules.faults import fault_key
from onbeat.rules.storable import storable_text
from onbeat.rules.suspicion import evidence, is_poison, suspicion_after
from onbeat.rules.windows import opening_at_or_after


def settle(job: Job, outcome: Outcome, now: datetime, chance: float) -> Job:
    """The job as it should be stored after `outcome`. Always gives up the lease.

    `chance`, from 0 to below 1, spreads the delay before a retry.
    """
    match outcome:
        case Succeeded(result=result):
            return finish(job, JobState.SUCCEEDED, now, result=result)
        case Failed(error=error):
            return retry_or_fail(job, outcome, error, now, chance)
        case Snoozed():
            return snooze(job, outcome, now)
        case Cancelled():
            return cancel(job, outcome, now)
        case Released():
            return release(job, now)
        case Lost():
            return rescue(job, outcome, now, chance)


def retry_or_fail(job: Job, failed: Failed, error: str, now: datetime, chance: float) -> Job:
    """Retry after a delay, or fail if a retry cannot help or no attempts are left."""
    error = stored_error(job, error)
    failures = job.attempt - job.lost
    if not failed.retryable:
        return finish(job, JobState.FAILED, now, reason="not retryable", error=error)
    if failures >= job.retry.attempts_max:
        return finish(job, JobState.FAILED, now, reason="attempts used up", error=error)
    wait = job.retry.delay_after(failures, chance)
    if failed.retry_after is not None:
        # Full jitter could undercut the delay that the target requested, so the jitter is added to
        # it.
        wait = failed.retry_after + wait
    return waiting_again(job, now + wait, error=error)


def cancel(job: Job, cancelled: Cancelled, now: datetime) -> Job:
    """An attempt whose target was not run does not count: without others the job has not begun."""
    reason = storable_text(cancelled.reason)[:REASON_CHARS_MAX]
    ended = finish(job, JobState.CANCELLED, now, reason=reason)
    if not cancelled.unstarted:
        return ended
    return replace(ended, attempt=job.attempt - 1, started_at=start_before(job))


def start_before(job: Job) -> datetime | None:
    """The start of a running job whose target was not run; None if none was before this attempt.

    An earlier attempt counts, was lost or handed back, or has left its steps. One that was snoozed
    before its first step has left nothing, and counts for nothing.
    """
    has_begun = job.attempt > 1 or job.lost or job.released or job.cursor is not None
    return job.started_at if has_begun else None


def snooze(job: Job, snoozed: Snoozed, now: datetime) -> Job:
    """Due again after the delay; costs no attempt. The reason is kept until the next run.

    A job whose target was not run must still start before it expires. Without a wait, it must also
    start in time, and it keeps its place among those that are due.
    """
    wait = snoozed.delay if snoozed.until is None else snoozed.until - now
    bounded = min(max(wait, timedelta()), SPAN_MAX)
    is_put_off = bool(bounded) or snoozed.until is not None
    due_at = now + bounded if is_put_off or not snoozed.unstarted else min(job.due_at, now)
    reason = None if snoozed.reason is None else storable_text(snoozed.reason)[:REASON_CHARS_MAX]
    again = waiting_again(job, due_at, attempt=job.attempt - 1, reason=reason)
    if snoozed.unstarted and start_before(job) is None:
        return replace(
            again, start_by=job.expires_at if is_put_off else job.start_by, started_at=None
        )
    return again


def release(job: Job, now: datetime) -> Job:
    """A shutdown is not a failure: the job is due at once, and no attempt is spent.

    Releases have a limit of their own, so that a job cannot be released forever. A job that was
    only on its way, or could not be sent, is not counted; if on its way, its `start_by` still
    applies, and it keeps its place among those that are due.
    """
    is_on_its_way = is_carried(job.worker)
    due_at = min(job.due_at, now) if is_on_its_way else now
    again = waiting_again(job, due_at, attempt=job.attempt - 1)
    if is_on_its_way:
        return replace(again, start_by=job.start_by, started_at=start_before(job))
    if is_remote(job.worker):
        return again
    if job.released + 1 > RELEASED_MAX:
        return finish(job, JobState.FAILED, now, reason=f"handed back {RELEASED_MAX} times")
    return replace(again, released=job.released + 1)


def rescue(job: Job, last: Lost, now: datetime, chance: float) -> Job:
    """The worker died while it ran the job. Losses have their own limit, so poison jobs end too."""
    lost = job.lost + 1
    if job.cancel_reason is not None:
        return finish(job, JobState.CANCELLED, now, reason=job.cancel_reason, lost=lost)
    if last.evidence is Evidence.UNANSWERED:
        return call_again(job, last, now, chance)
    suspicion, deaths = suspicion_after(job, last), lost - last.unanswered
    if is_poison(job, deaths, suspicion, last.returned):
        reason = storable_text(evidence(deaths, suspicion, last))[:REASON_CHARS_MAX]
        return finish(job, JobState.FAILED, now, reason=reason, error=last.reason, lost=lost)
    # The first loss is most likely the machine's fault, so the job is due at once. Losses that
    # other jobs may explain do not increase the delay.
    wait = timedelta() if lost == 1 else job.retry.delay_after(max(1, suspicion.alone), chance)
    error = error_after_loss(job, last.reason)
    again = waiting_again(job, now + wait, error=error, lost=lost)
    return replace(again, suspicion=suspicion)


def call_again(job: Job, last: Lost, now: datetime, chance: float) -> Job:
    """The job waits for another call; an unanswered call is no evidence against it.

    The attempt number rises, so that a late result does not count for the next call. The job may
    not have started, so its expiry still applies.
    """
    due_at = now + job.retry.delay_after(1, chance)
    error = error_after_loss(job, last.reason)
    again = waiting_again(job, due_at, error=error, lost=job.lost + 1)
    return replace(again, start_by=job.start_by)


def error_after_loss(job: Job, reason: str) -> str:
    """The reason; after that of a condition which failed, so that the condition is judged again."""
    if not (job.error or "").startswith(CONDITION_FAILED):
        return reason
    return stored_error(job, f"{(job.error or '').partition(chr(10))[0]}\n{reason}")


def waiting_again(
    job: Job,
    due_at: datetime,
    *,
    reason: str | None = None,
    attempt: int | None = None,
    error: str | None = None,
    lost: int | None = None,
    released: int | None = None,
) -> Job:
    return replace(
        job,
        state=JobState.WAITING,
        due_at=opening_at_or_after(job.window, due_at) if job.window else due_at,
        reason=reason,
        start_by=None,
        worker=None,
        lease_until=None,
        progress=None,
        attempt=job.attempt if attempt is None else attempt,
        error=job.error if error is None else error,
        fault=job.fault if error is None else fault_key(job.target, error),
        lost=job.lost if lost is None else lost,
        released=job.released if released is None else released,
    )


def finish(
    job: Job,
    state: JobState,
    now: datetime,
    *,
    reason: str | None = None,
    error: str | None = None,
    result: object = None,
    lost: int | None = None,
) -> Job:
    return replace(
        job,
        state=state,
        finished_at=now,
        start_by=None,
        lease_until=None,
        cursor=None,
        suspicion=None,
        reason=reason,
        error=error,
        fault=None if error is None else fault_key(job.target, error),
        result=result,
        lost=job.lost if lost is None else lost,
    )


def attempt_of(job: Job, outcome: Outcome, now: datetime) -> Attempt:
    """The record of the attempt that ended with `outcome`; `job` is its form while it ran."""
    assert job.started_at is not None, "a claimed job has started"
    name, error = outcome_name(outcome)
    return Attempt(
        job_id=job.id,
        token=job.token,
        number=job.attempt,
        worker=job.worker,
        started_at=job.started_at,
        finished_at=now,
        outcome=name,
        error=None if error is None else stored_error(job, error),
    )


def stored_error(job: Job, error: str) -> str:
    """The error in its stored form. That of a sensitive job may show what it worked on.

    A long one keeps its end, and the beginning that says that the condition is to be judged again.
    Long lines of it are cut in their middle first: a message of a megabyte would leave neither its
    own beginning, which names the exception, nor where it was raised.
    """
    text = with_short_lines(storable_text(error))
    if error.startswith(CONDITION_FAILED):
        start = f"{CONDITION_FAILED}: … "
        over = len(text) > ERROR_CHARS_MAX
        return start + text[len(start) - ERROR_CHARS_MAX :] if over else text
    return NOT_SHOWN if job.sensitive else text[-ERROR_CHARS_MAX:]


def with_short_lines(text: str) -> str:
    """The text as it is while it can be kept whole."""
    if len(text) <= ERROR_CHARS_MAX:
        return text
    return "\n".join(map(short_line, text.split("\n")))


def short_line(line: str) -> str:
    left = len(line) - ERROR_LINE_CHARS_MAX
    if left <= 0:
        return line
    end = ERROR_LINE_CHARS_MAX // 4
    begin = ERROR_LINE_CHARS_MAX - end
    return f"{line[:begin]} … {left:,} characters left out … {line[-end:]}"


def outcome_name(outcome: Outcome) -> tuple[OutcomeName, str | None]:
    match outcome:
        case Succeeded():
            return OutcomeName.SUCCEEDED, None
        case Failed(error=error):
            return OutcomeName.FAILED, error
        case Snoozed(reason=reason):
            return OutcomeName.SNOOZED, reason
        case Cancelled(reason=reason):
            return OutcomeName.CANCELLED, reason
        case Lost(reason=reason):
            return OutcomeName.LOST, reason
        case Released():
            return OutcomeName.RELEASED, None
