"""What a store has to answer and to keep, in plain lines and by no code of the product.

`World.accepts` asks whether an answer is one that a store in this state may give, and applies its
effects. Several calls at once are judged in every order, so an answer says which state follows.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from model_checks import calls

WAITING, RUNNING, SUCCEEDED, FAILED, CANCELLED = (
    "waiting",
    "running",
    "succeeded",
    "failed",
    "cancelled",
)


CAUSE = 9
"""The place of a job's cause in what is seen of it."""


@dataclass(slots=True)
class Job:
    """A job as it must be stored."""

    id: str
    due: datetime
    queue: str
    priority: int
    unique: str | None = None
    unique_for: timedelta | None = None
    after: tuple[str, ...] = ()
    schedule: str | None = None
    occurrence: datetime | None = None
    start_by: datetime | None = None
    state: str = WAITING
    token: int = 0
    attempt: int = 0
    lost: int = 0
    released: int = 0
    worker: str | None = None
    cancel_reason: str | None = None
    finished_at: datetime | None = None
    cause: str | None = None
    causes: frozenset[str] = frozenset()
    """Of several that ended at once the store may name any."""
    has_started: bool = False
    was_changed: bool = False
    """It has a transition, so that an edit cancels it instead of deleting it."""
    blocked: frozenset[str] = frozenset()
    attempts: tuple[tuple[int, str, datetime], ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.state in (SUCCEEDED, FAILED, CANCELLED)

    @property
    def never_began(self) -> bool:
        return self.state == WAITING and (not self.has_started or self.start_by is not None)


@dataclass(slots=True)
class Schedule:
    version: int = 1
    is_paused: bool = False
    through: datetime | None = None
    edited: Any = None
    """The latest edit; the same one again is one that is repeated."""
    ledger: dict[datetime, str | None] = field(default_factory=dict[datetime, str | None])
    """By instant the job, or None where it was skipped."""


def job_of(sent: Any) -> Job:
    return Job(
        id=sent.id,
        due=sent.due_at,
        queue=sent.queue,
        priority=sent.priority,
        unique=sent.unique,
        unique_for=sent.unique_for,
        after=sent.after,
        schedule=sent.schedule_id,
        occurrence=sent.occurrence,
        start_by=sent.start_by,
    )


class World:
    """The state of one store."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.held: dict[str, tuple[str, datetime]] = {}
        self.paused: set[str] = set()
        self.concurrency: dict[str, int] = {}
        self.schedules: dict[str, Schedule] = {}
        self.gone: dict[str, dict[datetime, str | None]] = {}
        """The ledgers of deleted schedules."""
        self.workers: set[str] = set()

    def branch(self) -> "World":
        """A copy; what a call changes in it does not change this one."""
        other = copy.copy(self)
        other.jobs = {id: replace(job) for id, job in self.jobs.items()}
        other.held, other.paused = dict(self.held), set(self.paused)
        other.concurrency, other.workers = dict(self.concurrency), set(self.workers)
        other.schedules = {
            id: replace(one, ledger=dict(one.ledger)) for id, one in self.schedules.items()
        }
        other.gone = {id: dict(ledger) for id, ledger in self.gone.items()}
        return other

    def accepts(self, call: calls.Call, answer: Any, *, alone: bool) -> bool:
        """Whether the answer is right here. Beside others a claim may leave out locked jobs."""
        if isinstance(call, calls.Claim):
            return self.claim(call, answer, alone=alone)
        return bool(answer == ANSWERS[type(call)](self, call))

    # Jobs

    def enqueue(self, call: calls.Enqueue) -> Any:
        coming = set(self.jobs)
        for sent in call.jobs:
            if not set(sent.after) <= coming:
                return "invalid"
            coming.add(sent.id)
        answers: list[tuple[str, bool]] = []
        for sent in call.jobs:
            holder = self.holder(sent.unique, sent.created_at)
            if sent.id in self.jobs:
                answers.append((sent.id, True))
            elif holder is not None:
                answers.append((holder, False))
            else:
                self.add(job_of(sent), sent.created_at)
                answers.append((sent.id, True))
        return answers

    def holder(self, key: str | None, now: datetime) -> str | None:
        if key is None:
            return None
        live = [job.id for job in self.jobs.values() if job.unique == key and not job.has_ended]
        assert len(live) <= 1
        id, until = self.held.get(key, ("", now))
        return live[0] if live else id if until > now else None

    def add(self, job: Job, now: datetime) -> None:
        lost = [id for id in job.after if self.jobs[id].state in (FAILED, CANCELLED)]
        job.blocked = frozenset(id for id in job.after if not self.jobs[id].has_ended)
        self.jobs[job.id] = job
        if lost:
            self.end(job, CANCELLED, now, lost[-1:])
            job.was_changed = True

    def claim(self, call: calls.Claim, answer: list[tuple[str, int]], *, alone: bool) -> bool:
        ready = sorted(
            (job for job in self.jobs.values() if self.may_start(job, call.now)),
            key=lambda job: (job.priority, job.due, job.id),
        )
        given: list[tuple[str, int]] = []
        for job in ready:
            if len(given) == call.limit or not self.has_room(job.queue):
                continue
            if alone or (job.id, job.token + 1) in answer:
                job.state, job.worker = RUNNING, call.worker
                job.token, job.attempt = job.token + 1, job.attempt + 1
                job.has_started = True
                given.append((job.id, job.token))
        return answer == given

    def may_start(self, job: Job, now: datetime) -> bool:
        schedule = self.schedules.get(job.schedule or "")
        return (
            job.state == WAITING
            and not job.blocked
            and job.due <= now
            and job.queue not in self.paused
            and not (schedule is not None and schedule.is_paused)
            and not (job.start_by is not None and job.start_by < now)
        )

    def has_room(self, queue: str) -> bool:
        running = sum(job.state == RUNNING and job.queue == queue for job in self.jobs.values())
        return running < self.concurrency.get(queue, len(self.jobs) + 1)

    def settle(self, call: calls.Settle) -> bool:
        job, after = self.jobs.get(call.lease.id), call.after
        attempt = (int(call.lease.token), call.outcome, call.now)
        if job is None:
            return False
        if (job.state, job.token, job.worker) != (RUNNING, attempt[0], call.lease.worker):
            return attempt in job.attempts
        job.attempts = (*job.attempts, attempt)
        job.attempt, job.lost, job.released = after.attempt, after.lost, after.released
        job.worker, job.start_by = None, after.start_by
        if after.state.value != WAITING:
            self.end(job, after.state.value, call.now)
        elif job.cancel_reason is not None:
            job.due = after.due_at
            self.end(job, CANCELLED, call.now)
        else:
            job.state, job.due = WAITING, after.due_at
        return True

    def end(self, job: Job, state: str, now: datetime, causes: Iterable[str] = ()) -> None:
        """End a job, and cancel or free those that waited for it, level by level."""
        self.put_end(job, state, now, frozenset(causes))
        level = [job]
        while level:
            ids, won = {one.id for one in level}, state == SUCCEEDED
            waiting = [one for one in self.jobs.values() if one.blocked & ids]
            for one in waiting:
                if won:
                    one.blocked -= ids
                else:
                    one.was_changed = True
                    self.put_end(one, CANCELLED, now, one.blocked & ids)
            level, state = ([], state) if won else (waiting, CANCELLED)

    def put_end(self, job: Job, state: str, now: datetime, causes: frozenset[str]) -> None:
        job.state, job.finished_at, job.causes = state, now, causes
        job.cause = min(causes, default=None)
        job.worker, job.start_by, job.blocked = None, None, frozenset()
        did_nothing = state == CANCELLED and not job.has_started
        if job.unique is not None and job.unique_for is not None and not did_nothing:
            self.held[job.unique] = (job.id, now + job.unique_for)

    def cancel(self, call: calls.Cancel) -> str | None:
        job = self.jobs.get(call.id)
        if job is None:
            return None
        self.stop(job, call.reason, call.now)
        return job.state

    def stop(self, job: Job, reason: str, now: datetime) -> None:
        if job.state == WAITING:
            job.was_changed = True
            self.end(job, CANCELLED, now)
        elif job.cancel_reason is None and (job.state == RUNNING or self.may_return(job)):
            job.cancel_reason = reason

    def may_return(self, job: Job) -> bool:
        """Whether a retry of another job would bring it back."""
        return job.state == CANCELLED and job.cause is not None and job.cancel_reason is None

    def retry(self, call: calls.Retry) -> str | None:
        job = self.jobs.get(call.id)
        if job is None or job.state not in (FAILED, CANCELLED):
            return None if job is None else job.state
        before = self.branch()
        again = [job, *(self.cancelled_with(job) if call.dependents else ())]
        taken: set[str] = set()
        for one in again:
            holder = self.holder(one.unique, call.now)
            if one.unique in taken or holder not in (None, one.id):
                self.jobs = before.jobs
                return "conflict"
            taken |= {one.unique} if one.unique is not None else set()
        for one in again:
            is_now = one is job or one.has_started
            one.due = call.now if is_now else max(one.due, call.now)
            one.state, one.was_changed = WAITING, True
            one.attempt = one.lost = one.released = 0
            one.cancel_reason = one.finished_at = one.cause = one.start_by = None
        for one in again:
            one.blocked = frozenset(
                id for id in one.after if id in self.jobs and not self.jobs[id].has_ended
            )
        return WAITING

    def cancelled_with(self, cause: Job) -> list[Job]:
        """Those that were cancelled because of this one, but for those that another one keeps."""
        found = [cause]
        for one in found:
            mine = [
                job for job in self.jobs.values() if job.cause == one.id and self.may_return(job)
            ]
            found += [job for job in mine if job not in found]
        candidates, ids = found[1:], {job.id for job in found}
        while True:
            kept = [
                job for job in candidates if (by := self.keeper(job, ids)) and self.note(job, by)
            ]
            if not kept:
                return candidates
            candidates = [job for job in candidates if job not in kept]
            ids -= {job.id for job in kept}

    def keeper(self, job: Job, tried: set[str]) -> str | None:
        """The last job that keeps it from running, beside those that are tried again."""
        ended = [id for id in job.after if id not in tried and id in self.jobs]
        lost = [id for id in ended if self.jobs[id].state in (FAILED, CANCELLED)]
        return lost[-1] if lost else None

    def note(self, job: Job, cause: str) -> bool:
        job.cause, job.causes = cause, frozenset([cause])
        return True

    def pause_queue(self, call: calls.PauseQueue) -> None:
        (self.paused.add if call.paused else self.paused.discard)(call.queue)

    def limit_queue(self, call: calls.LimitQueue) -> None:
        self.concurrency.pop(call.queue, None)
        if call.concurrency is not None:
            self.concurrency[call.queue] = call.concurrency

    # Schedules

    def plan(self, call: calls.Plan) -> bool:
        schedule = self.schedules.get(call.plan.schedule_id)
        if schedule is None or schedule.version != call.plan.version:
            return False
        self.store_plan(schedule, call.plan)
        return True

    def store_plan(self, schedule: Schedule, plan: Any) -> None:
        schedule.through = max(schedule.through or plan.planned_through, plan.planned_through)
        for sent in plan.jobs:
            if sent.occurrence not in schedule.ledger:
                schedule.ledger[sent.occurrence] = sent.id
                self.jobs[sent.id] = job_of(sent)
        for skip in plan.skips:
            schedule.ledger.setdefault(skip.first, None)

    def edit(self, call: calls.Edit) -> bool:
        schedule = self.schedules.get(call.schedule.id)
        if schedule is None or call.schedule.version != schedule.version + 1:
            return schedule is not None and schedule.edited == call.schedule
        schedule.version, schedule.is_paused = call.schedule.version, call.paused
        schedule.edited = call.schedule
        if call.plan is not None:
            planned = [job for job in self.planned(call.schedule.id, call.now) if job.never_began]
            self.withdraw(planned, call.now)
            self.cut(schedule.ledger, call.now)
            schedule.through = min(schedule.through or call.now, call.now)
            self.store_plan(schedule, call.plan)
        return True

    def planned(self, id: str, now: datetime) -> list[Job]:
        mine = [job for job in self.jobs.values() if job.schedule == id and job.state == WAITING]
        return [job for job in mine if job.occurrence is not None and job.occurrence > now]

    def withdraw(self, jobs: Iterable[Job], now: datetime) -> None:
        for job in jobs:
            is_awaited = any(job.id in other.blocked for other in self.jobs.values())
            if job.token or job.was_changed or is_awaited:
                self.stop(job, "withdrawn", now)
            else:
                del self.jobs[job.id]

    def cut(self, ledger: dict[datetime, str | None], now: datetime, *, all: bool = False) -> None:
        """Forget what is later than now, but for jobs that have started."""
        for at, id in list(ledger.items()):
            job = self.jobs.get(id or "")
            is_kept = job is not None and job.has_started and not self.was_withdrawn(job, now)
            if at > now and (all or not is_kept):
                del ledger[at]

    def was_withdrawn(self, job: Job, now: datetime) -> bool:
        return job.state == CANCELLED and job.finished_at == now and job.cause is None

    def delete(self, call: calls.Delete) -> bool:
        schedule = self.schedules.pop(call.id, None)
        if schedule is None:
            return False
        later = [job for job in self.planned(call.id, call.now) if not job.token]
        self.withdraw(sorted(later, key=lambda job: (job.due, job.id))[1:], call.now)
        for job in [one for one in self.jobs.values() if one.schedule == call.id]:
            self.stop(job, "schedule deleted", call.now)
        self.cut(schedule.ledger, call.now, all=True)
        self.gone[call.id] = schedule.ledger
        return True

    def cancel_overdue(self, call: calls.CancelOverdue) -> int:
        never = [job for id in call.ids if (job := self.jobs.get(id)) and job.never_began]
        for job in never:
            if job.state == WAITING:
                self.stop(job, "overdue", call.now)
        return len(never)

    # Leases and retention

    def beat(self, call: calls.Beat) -> list[tuple[str, int, str | None]]:
        self.workers.add(call.worker)
        return self.leases_of(call.worker)

    def leases_of(self, worker: str) -> list[tuple[str, int, str | None]]:
        mine = [job for job in self.jobs.values() if job.worker == worker]
        return sorted((job.id, job.token, job.cancel_reason) for job in mine)

    def abandoned(self, call: calls.Abandoned) -> list[str]:
        return sorted(
            job.id
            for job in self.jobs.values()
            if job.state == RUNNING and (job.worker in call.dead or job.worker not in self.workers)
        )

    def forget(self, call: calls.Forget) -> int:
        if call.worker not in self.workers or self.leases_of(call.worker):
            return 0
        self.workers.remove(call.worker)
        return 1

    def prune(self, call: calls.Prune) -> int:
        past = [
            job
            for job in self.jobs.values()
            if job.finished_at is not None and job.has_ended and job.finished_at < call.before
        ]
        for job in past:
            del self.jobs[job.id]
        ledgers = [one.ledger for one in self.schedules.values()]
        for ledger in [*ledgers, *self.gone.values()]:
            for at, id in list(ledger.items()):
                is_live = id in self.jobs and not self.jobs[id].has_ended
                if at < call.before and not is_live:
                    del ledger[at]
        return len(past)

    # What others see

    def adopt(self, shown: dict[str, Any]) -> None:
        """Take over which of several possible causes the store has named."""
        for job in self.jobs.values():
            cause = shown.get(job.id, (None,) * CAUSE)[CAUSE - 1]
            job.cause = cause if cause in job.causes else job.cause

    def seen(self) -> dict[str, Any]:
        """All that a store must be able to show, to be compared with what it shows."""
        return {
            "jobs": {
                job.id: (
                    job.state,
                    job.token,
                    (job.attempt, job.lost, job.released),
                    job.worker if job.state == RUNNING else None,
                    job.due,
                    len(job.blocked),
                    job.cancel_reason,
                    job.finished_at if job.has_ended else None,
                    job.cause,
                    job.start_by,
                    job.attempts,
                )
                for job in self.jobs.values()
            },
            "schedules": {
                id: (one.version, one.is_paused, one.through) for id, one in self.schedules.items()
            },
            "ledgers": {
                id: ledger
                for id, ledger in (
                    *((id, one.ledger) for id, one in self.schedules.items()),
                    *self.gone.items(),
                )
                if ledger
            },
        }


ANSWERS: dict[type, Callable[[World, Any], Any]] = {
    calls.Enqueue: World.enqueue,
    calls.Settle: World.settle,
    calls.Cancel: World.cancel,
    calls.Retry: World.retry,
    calls.PauseQueue: World.pause_queue,
    calls.LimitQueue: World.limit_queue,
    calls.Plan: World.plan,
    calls.Edit: World.edit,
    calls.Delete: World.delete,
    calls.CancelOverdue: World.cancel_overdue,
    calls.Beat: World.beat,
    calls.Abandoned: World.abandoned,
    calls.Forget: World.forget,
    calls.Prune: World.prune,
}
