"""Keeps suspects (jobs that ran in a worker that died) apart from the worker's other jobs."""

from collections import deque
from collections.abc import Sequence

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job

APART = "put back at once: it must run beside fewer other jobs than the worker had"


class Quarantine:
    """Limits what a worker holds while suspects run, and what it claims until they have run.

    A suspect with too many neighbours waits until enough of them have ended, and the worker claims
    nothing new meanwhile. Only one suspect waits, since every job that a worker holds when it dies
    counts as company of the others. After a suspect, claims begin again with one job and double.
    """

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.running: dict[JobId, int] = {}
        self.waiting: deque[Job] = deque()
        self.allowance: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self.running and not self.waiting and self.allowance is None

    @property
    def slots(self) -> int:
        """How many attempts may run at once beside the running suspects."""
        if not self.running:
            return self.concurrency
        return min(self.concurrency, *self.running.values())

    def free_slots(self, free: int, busy: int) -> int:
        """How many of `free` jobs a worker that holds `busy` jobs may claim."""
        if self.waiting:
            return 0
        if self.running:
            free = min(free, self.slots - busy)
        return free if self.allowance is None else min(free, self.allowance)

    def keep_suspects(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Keep the suspects, those with the most company first. Returns the other jobs."""
        suspects = [job for job in jobs if job.suspicion and company_max(job) is not None]
        if suspects:
            self.allowance = 1
            self.waiting.extend(sorted(suspects, key=bound_of, reverse=True))
            return [job for job in jobs if company_max(job) is None]
        if self.allowance is not None:
            self.allowance *= 2
            if self.allowance >= self.concurrency:
                self.allowance = None
        return jobs

    def next(self, busy: int) -> Job | None:
        """The suspect that may begin beside `busy` jobs; it counts as running from then on."""
        if not self.waiting or busy >= min(self.slots, bound_of(self.waiting[0])):
            return None
        job = self.waiting.popleft()
        self.running[job.id] = bound_of(job)
        return job

    def release_surplus(self) -> Sequence[Job]:
        """Take out the suspects that must not wait here: all but one, or all if one runs alone."""
        kept = 0 if self.running and self.slots == 1 else 1
        return [self.waiting.pop() for _ in range(len(self.waiting) - kept)]

    def end(self, id: JobId) -> None:
        self.running.pop(id, None)

    def take(self, id: JobId, token: Token) -> Job | None:
        """Take out the job if it waits here under this lease."""
        for job in self.waiting:
            if (job.id, job.token) == (id, token):
                self.waiting.remove(job)
                return job
        return None


def company_max(job: Job) -> int | None:
    return None if job.suspicion is None else job.suspicion.company_max


def bound_of(job: Job) -> int:
    bound = company_max(job)
    assert bound is not None, "only jobs with a bound are kept apart"
    return bound
