"""From a job and what its attempt came to, to the job as it should be stored."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.job import Job, JobState
from onbeat.model.limits import ERROR_CHARS_MAX, LOST_MAX, REASON_CHARS_MAX, RELEASED_MAX, SPAN_MAX
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.worker import is_carried, is_remote


def settle(job: Job, outcome: Outcome, now: datetime, chance: float) -> Job:
    """The job as it should be stored after `outcome`. Always gives up the lease.

    `chance`, from 0 to below 1, spreads the wait before another try.
    """
    match outcome:
        case Succeeded(result=result):
            return ended(job, JobState.SUCCEEDED, now, result=result)
        case Failed(error=error):
            return retry_or_fail(job, outcome, error, now, chance)
        case Snoozed():
            return snooze(job, outcome, now)
        case Cancelled(reason=reason):
            reason = keepable(reason)[:REASON_CHARS_MAX]
            return ended(job, JobState.CANCELLED, now, reason=reason)
        case Released():
            return release(job, now)
        case Lost(reason=reason):
            return rescue(job, reason, now, chance)


def retry_or_fail(job: Job, failed: Failed, error: str, now: datetime, chance: float) -> Job:
    """Another try after a wait, or the end when it cannot help or the tries are used up."""
    error = keepable(error)[-ERROR_CHARS_MAX:]
    failures = job.attempt - job.lost
    if not failed.retryable:
        return ended(job, JobState.FAILED, now, reason="not retryable", error=error)
    if failures >= job.retry.attempts_max:
        return ended(job, JobState.FAILED, now, reason="attempts used up", error=error)
    wait = job.retry.delay_after(failures, chance)
    if failed.retry_after is not None:
        # Full jitter could undercut the wait the target asked for; so it is a floor, spread above.
        wait = failed.retry_after + wait
    return waiting(job, now + wait, error=error)


def snooze(job: Job, snoozed: Snoozed, now: datetime) -> Job:
    """Due again after the delay, and no try is spent; the reason stands until it runs again."""
    bounded = min(max(snoozed.delay, timedelta()), SPAN_MAX)
    reason = None if snoozed.reason is None else keepable(snoozed.reason)[:REASON_CHARS_MAX]
    return waiting(job, now + bounded, attempt=job.attempt - 1, reason=reason)


def release(job: Job, now: datetime) -> Job:
    """A shutdown is not a failure: the job is due at once and no try is spent.

    A job that is only ever handed back would never end, so that has a bound of its own. One that
    was only on its way, or could not be sent, is not counted; on its way it has not started, and
    still has to in time.
    """
    if is_carried(job.worker):
        return replace(waiting(job, now, attempt=job.attempt - 1), start_by=job.start_by)
    if is_remote(job.worker):
        return waiting(job, now, attempt=job.attempt - 1)
    if job.released + 1 > RELEASED_MAX:
        return ended(job, JobState.FAILED, now, reason=f"handed back {RELEASED_MAX} times")
    return waiting(job, now, attempt=job.attempt - 1, released=job.released + 1)


def rescue(job: Job, reason: str, now: datetime, chance: float) -> Job:
    """A worker died under the job. Crashes have their own budget, so poison ends too."""
    lost = job.lost + 1
    if job.cancel_reason is not None:
        return ended(job, JobState.CANCELLED, now, reason=job.cancel_reason, lost=lost)
    if lost >= LOST_MAX:
        return ended(job, JobState.FAILED, now, reason="poison", error=reason, lost=lost)
    # The first crash is most likely the machine's fault, so that job goes on at once.
    wait = timedelta() if lost == 1 else job.retry.delay_after(lost, chance)
    return waiting(job, now + wait, error=reason, lost=lost)


def waiting(
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
        due_at=due_at,
        reason=reason,
        start_by=None,
        worker=None,
        lease_until=None,
        progress=None,
        attempt=job.attempt if attempt is None else attempt,
        error=job.error if error is None else error,
        lost=job.lost if lost is None else lost,
        released=job.released if released is None else released,
    )


def ended(
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
        reason=reason,
        error=error,
        result=result,
        lost=job.lost if lost is None else lost,
    )


def attempt_of(job: Job, outcome: Outcome, now: datetime) -> Attempt:
    """The record of the try that ended with `outcome`; `job` is as it was while it ran."""
    assert job.started_at is not None, "a claimed job has started"
    name, error = told(outcome)
    return Attempt(
        job_id=job.id,
        token=job.token,
        number=job.attempt,
        worker=job.worker,
        started_at=job.started_at,
        finished_at=now,
        outcome=name,
        error=None if error is None else keepable(error)[-ERROR_CHARS_MAX:],
    )


def keepable(text: str) -> str:
    """The text without halves of characters, which names of files may hold and no store keeps."""
    return text.encode("utf-8", "replace").decode()


def told(outcome: Outcome) -> tuple[OutcomeName, str | None]:
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
