"""The verbs of the port, each under one lock."""

import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from onbeat.model.attempt import Attempt
from onbeat.model.event import Stats, Transition
from onbeat.model.ids import JobId, LetterId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.letter import DeadLetter
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.worker import Worker
from onbeat.ports.store import (
    Carton,
    Claimed,
    ClaimRequest,
    Disposition,
    Enqueued,
    Finding,
    Held,
    Hint,
    Sent,
    Settlement,
    Traced,
)
from onbeat.stores.memory import (
    burying,
    claiming,
    copying,
    ending,
    enqueueing,
    leasing,
    listing,
    planning,
    pruning,
    sending,
    settling,
)
from onbeat.stores.memory.tables import AT_FIRST, Tables

log = logging.getLogger(__name__)

Heard = Callable[[Hint], None]


class Listener:
    """One call of `listen`; the same function may be given to several."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def tell(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            try:
                self.heard(hint)
            except Exception:  # the change is made; a listener's fault must not make it look undone
                log.exception("store.listener_failed")


class MemoryStore:
    """Keeps everything in this process, and nothing beyond its end.

    Every verb checks first and changes then, so that one that raises has changed nothing.
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()

    @contextmanager
    def locked(self) -> Generator[Tables, None, None]:
        """The tables, for one verb alone; listeners hear of what it changed once it is done."""
        with self._lock:
            yield self._tables
            hints, self._tables.hints = self._tables.hints, set()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.tell(hints)

    @property
    def url(self) -> str:
        return "memory://"

    async def open(self) -> None:
        """There is nothing to connect to."""

    async def close(self) -> None:
        """There is nothing to finish: every verb has ended when it returns."""

    async def ping(self) -> None:
        """It always answers."""

    async def now(self) -> datetime | None:
        """It has no clock of its own."""

    async def doctor(self) -> Sequence[Finding]:
        return (
            Finding(
                name="durability",
                ok=False,
                value="in memory: nothing is kept across a restart",
                remedy="Use it for tests and trials; keep work that matters in an SQLite store.",
            ),
        )

    def listen(self, heard: Heard) -> Callable[[], None]:
        listener = Listener(heard)
        with self._lock:
            self._listeners.add(listener)

        def stop() -> None:
            with self._lock:
                self._listeners.discard(listener)

        return stop

    # Planner.

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        with self.locked() as tables:
            due = [
                (schedule.plan_at, schedule.id)
                for schedule in tables.schedules.values()
                if schedule.status is ScheduleStatus.ACTIVE
                and schedule.plan_at is not None
                and schedule.plan_at <= now
            ]
            return tuple(tables.schedules[id] for _, id in sorted(due)[:limit])

    async def next_plan_at(self) -> datetime | None:
        with self.locked() as tables:
            times = (
                schedule.plan_at
                for schedule in tables.schedules.values()
                if schedule.status is ScheduleStatus.ACTIVE and schedule.plan_at is not None
            )
            return min(times, default=None)

    async def lapsed(self, now: datetime, limit: int) -> Sequence[Job]:
        with self.locked() as tables:
            past = tables.bounded_between(AT_FIRST, now)
            return tuple(tables.jobs[id] for id in islice(past, limit))

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        with self.locked() as tables:
            return tuple(tables.schedules[id] for id in set(ids) if id in tables.schedules)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        with self.locked() as tables:
            return tuple(planning.apply_plan(tables, plan) for plan in plans)

    async def cancel_lapsed(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        with self.locked() as tables:
            return planning.cancel_lapsed(tables, ids, reason, now)

    # Dispatcher and worker.

    async def claim(self, request: ClaimRequest) -> Claimed:
        with self.locked() as tables:
            return claiming.claim(tables, request)

    async def name_queues(self, names: Collection[str]) -> None:
        with self.locked() as tables:
            tables.known_queues.update(names)

    async def queue_names(self) -> Sequence[str]:
        with self.locked() as tables:
            return tuple(sorted(tables.known_queues))

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        with self.locked() as tables:
            return tuple(leasing.start(tables, worker, *lease, now) for lease in leases)

    async def send_from(self, sent: Sequence[Sent]) -> Sequence[bool]:
        with self.locked() as tables:
            for each in sent:
                sending.refuse_unknown(tables, each)
            return tuple(sending.send_one(tables, each) for each in sent)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        with self.locked() as tables:
            return tuple(settling.settle_one(tables, settlement) for settlement in settlements)

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        with self.locked() as tables:
            return tuple(settling.note_progress(tables, *note) for note in notes)

    # Renewer and rescuer.

    async def beat(self, worker: Worker) -> Sequence[Held]:
        with self.locked() as tables:
            tables.workers[worker.id] = worker
            return leasing.held(tables, worker.id)

    async def held(self, worker: WorkerId) -> Sequence[Held]:
        with self.locked() as tables:
            return leasing.held(tables, worker)

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[Held | None]:
        with self.locked() as tables:
            return tuple(leasing.renew(tables, *lease, until) for lease in leases)

    async def workers(self) -> Sequence[Worker]:
        with self.locked() as tables:
            return tuple(
                replace(worker, running=len(tables.leases.get(id, ())))
                for id, worker in sorted(tables.workers.items())
            )

    async def abandoned(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        with self.locked() as tables:
            return leasing.abandoned(tables, dead, now, limit)

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        with self.locked() as tables:
            gone = [id for id in set(ids) if id in tables.workers and not tables.leases.get(id)]
            for id in gone:
                del tables.workers[id]
            return len(gone)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        with self.locked() as tables:
            return pruning.prune(tables, finished_before, failed_before, limit)

    # Operations on schedules.

    async def add_schedule(self, schedule: Schedule, plan: Plan) -> None:
        with self.locked() as tables:
            planning.add_schedule(tables, schedule, plan)

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        with self.locked() as tables:
            return planning.update_schedule(tables, schedule, plan, now)

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        with self.locked() as tables:
            return planning.delete_schedule(tables, id, now)

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        with self.locked() as tables:
            return tables.schedules.get(id)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        with self.locked() as tables:
            id = tables.schedule_keys.get(key)
            return None if id is None else tables.schedules[id]

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        with self.locked() as tables:
            return listing.schedules_page(tables, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        with self.locked() as tables:
            return listing.occurrences_page(tables, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        with self.locked() as tables:
            return tables.ledger.between(id, first, last)

    async def backfill(self, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
        with self.locked() as tables:
            return planning.backfill(tables, id, jobs, skips)

    # Operations on jobs.

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        with self.locked() as tables:
            return enqueueing.enqueue(tables, jobs)

    async def job(self, id: JobId) -> Job | None:
        with self.locked() as tables:
            return tables.jobs.get(id)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        with self.locked() as tables:
            return listing.jobs_page(tables, filter)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        with self.locked() as tables:
            return tuple(tables.attempts.get(id, ()))

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        with self.locked() as tables:
            return tuple(tables.transitions.get(id, ()))

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        with self.locked() as tables:
            for id in ids:
                if id in tables.jobs:
                    ending.cancel(tables, tables.jobs[id], reason, now)
            return tuple(tables.jobs.get(id) for id in ids)

    async def retry(self, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
        with self.locked() as tables:
            return enqueueing.retry(tables, ids, now)

    # Operations on the whole.

    async def queues(self, now: datetime) -> Sequence[Queue]:
        with self.locked() as tables:
            return listing.queues(tables, now)

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        with self.locked() as tables:
            tables.known_queues.add(name)
            if paused:
                tables.paused_queues.add(name)
            else:
                tables.paused_queues.discard(name)
                tables.hints.add(Hint.JOBS)

    async def limit_queue(self, name: str, limits: Limits) -> None:
        with self.locked() as tables:
            tables.known_queues.add(name)
            tables.put_limits(name, limits)
            tables.hints.add(Hint.JOBS)

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        with self.locked() as tables:
            burying.bury(tables, letters)

    async def dead_letters(
        self, before: LetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        with self.locked() as tables:
            return burying.newest(tables, before, limit, source)

    async def dead_letters_by_id(self, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
        with self.locked() as tables:
            return burying.by_id(tables, ids)

    async def exhume(self, ids: Collection[LetterId]) -> int:
        with self.locked() as tables:
            return burying.exhume(tables, ids)

    async def stats(self, now: datetime) -> Stats:
        with self.locked() as tables:
            return listing.stats(tables, now)

    # Copying.

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        with self.locked() as tables:
            return copying.schedules_after(tables, after, limit)

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[Traced]:
        with self.locked() as tables:
            return tuple(Traced(*row) for row in islice(tables.ledger.beyond(after), limit))

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[Carton]:
        with self.locked() as tables:
            return copying.cartons_after(tables, after, limit)

    async def restore_schedules(self, schedules: Sequence[Schedule]) -> int:
        with self.locked() as tables:
            return copying.restore_schedules(tables, schedules)

    async def restore_dispositions(self, traced: Sequence[Traced]) -> int:
        with self.locked() as tables:
            return sum(tables.ledger.add(each.schedule_id, each.disposition) for each in traced)

    async def restore_jobs(self, cartons: Sequence[Carton]) -> int:
        with self.locked() as tables:
            return copying.restore_jobs(tables, cartons)
