"""Finds the job that kills workers, by bisection over the jobs that ran in them.

When a worker dies, any of its jobs may be the cause. Each of them runs again with half as many
others, until it is alone in its worker; only a death alone is evidence.
"""

from collections.abc import Iterable
from typing import Final

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.job import Job, Suspicion
from onbeat.model.limits import LOST_BESIDE_MAX
from onbeat.model.outcome import Evidence, Lost
from onbeat.model.worker import WorkerRecord, is_carried

ALONE_MIN: Final = 2  # deaths alone that are proof; one may be a deployment or the OOM killer
FREE_LOSSES: Final = 1  # these set no bound: most are the machine's fault
CLEAR: Final = Suspicion()


def suspicion_after(job: Job, lost: Lost) -> Suspicion:
    """The suspicion against the job after this loss."""
    before = job.suspicion or CLEAR
    bounded = company_after(before.company_max, lost.company)
    return Suspicion(
        alone=before.alone + (1 if is_evidence(lost) else 0),
        company_max=bounded if job.lost >= FREE_LOSSES else None,
    )


def is_evidence(lost: Lost) -> bool:
    """Whether something died, and only the job explains it."""
    something_died = lost.evidence not in {Evidence.ROWLESS, Evidence.UNANSWERED}
    return something_died and lost.company <= 1 and not lost.is_shared


def company_after(company_max: int | None, company: int) -> int | None:
    """Half the company of this loss; a process of the job's own was no danger to others."""
    if company < 1:
        return company_max
    return max(1, min(company, company_max or company) // 2)


def is_poison(job: Job, lost: int, suspicion: Suspicion, returned: int = 0) -> bool:
    """Whether the job fails permanently after `lost` losses; `returned` of them were no deaths.

    Losses beside other jobs reach their limit only if bisection cannot isolate the job: with
    workers that claim more than their bound, or if all workers repeatedly die together or are cut
    off.
    """
    alone = deaths_alone(suspicion, returned)
    if lost - alone >= LOST_BESIDE_MAX:
        return True
    lost_max = job.retry.lost_max
    return lost - returned >= lost_max and alone >= min(ALONE_MIN, lost_max)


def deaths_alone(suspicion: Suspicion, returned: int) -> int:
    """A lower bound: it is unknown which of the losses were no deaths."""
    return max(0, suspicion.alone - returned)


def returned_after(attempts: Iterable[Attempt], workers: Iterable[WorkerRecord]) -> int:
    """How many of the attempts were lost with a worker that has sent heartbeats since.

    Such a worker was cut off or suspended; the attempt did not kill it. A worker id names a single
    run of a process.
    """
    beaten = {worker.id: worker.beat_at for worker in workers if worker.beat_at is not None}
    return sum(
        attempt.worker is not None
        and beaten.get(attempt.worker, attempt.finished_at) > attempt.finished_at
        for attempt in attempts
        if attempt.outcome is OutcomeName.LOST
    )


def unanswered_among(attempts: Iterable[Attempt]) -> int:
    """How many of the attempts were calls that no remote worker answered."""
    return sum(map(is_unanswered, attempts))


def is_unanswered(attempt: Attempt) -> bool:
    return attempt.outcome is OutcomeName.LOST and is_carried(attempt.worker)


def evidence(lost: int, suspicion: Suspicion, last: Lost) -> str:
    """The reason of a job that fails as poison."""
    what = "process" if last.company == 0 else "worker"
    deaths, alone = lost - last.returned, deaths_alone(suspicion, last.returned)
    how = "" if alone == deaths == 1 else "each time " if alone == deaths else f"{times(alone)} "
    count = times(deaths)
    return f"poison: its {what} died {count} while it ran, {how}alone; last: {last.reason}"


def times(count: int) -> str:
    match count:
        case 0:
            return "never"
        case 1:
            return "once"
        case 2:
            return "twice"
        case _:
            return f"{count} times"
