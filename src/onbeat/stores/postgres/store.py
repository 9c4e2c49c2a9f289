"""The store as its readers see it: every verb hands its work to the site of the caller's loop."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

from onbeat.model.attempt import Attempt
from onbeat.model.errors import Unavailable
from onbeat.model.event import Stats, Transition
from onbeat.model.ids import JobId, LetterId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.letter import DeadLetter
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
from onbeat.model.schedule import Schedule
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
from onbeat.stores.postgres import (
    burying,
    claim,
    days,
    doctor,
    exporting,
    history,
    jobs,
    keeping,
    leases,
    planning,
    prune,
    queues,
    restoring_jobs,
    restoring_schedules,
    schedules,
    sending,
    settle,
    workers,
)
from onbeat.stores.postgres.annex import Annex
from onbeat.stores.postgres.connection import connect
from onbeat.stores.postgres.faults import raise_refusal
from onbeat.stores.postgres.hints import Hints
from onbeat.stores.postgres.migrate import migrate
from onbeat.stores.postgres.place import read_place
from onbeat.stores.postgres.site import Site
from onbeat.stores.sql.commits import commit_time
from onbeat.stores.sql.values import instant, micros

POOL_MAX = 8
ANNEX_POOL_MAX = 4

Answer = TypeVar("Answer")


class PostgresStore:
    """All state in one schema of a PostgreSQL database: `postgresql://USER@HOST/DB?schema=onbeat`.

    Calls from the loop that opened the store use connections of that loop; calls from any other
    loop or thread use those of a thread of the store's own, which nothing else can hold up.
    """

    def __init__(self, url: str, *, pool_max: int = POOL_MAX) -> None:
        self._place = read_place(url)
        self._pool_max = pool_max
        self._hints = Hints(self._place)
        self._home: Site | None = None
        self._home_loop: asyncio.AbstractEventLoop | None = None
        self._annex = Annex(lambda: Site(self._place, self._hints, ANNEX_POOL_MAX))

    @property
    def url(self) -> str:
        return self._place.url

    async def open(self) -> None:
        try:
            db = await connect(self._place)
            try:
                await migrate(db, self._place)
            finally:
                await db.close(timeout=2.0)
        except Exception as error:  # noqa: BLE001  it is raised again as what it means
            raise_refusal(error, self.url)
        home = Site(self._place, self._hints, self._pool_max)
        self._home, self._home_loop = home, asyncio.get_running_loop()
        self._annex.begin()
        self._hints.start(home.notify)
        await keeping.add_missing_days(home)

    async def close(self) -> None:
        home, loop = self._home, self._home_loop
        self._home = self._home_loop = None
        await asyncio.to_thread(self._annex.end)
        if home is None or loop is None or loop.is_closed():
            return
        if loop is asyncio.get_running_loop():
            await self._close_home(home)
        else:
            work = asyncio.run_coroutine_threadsafe(self._close_home(home), loop)
            await asyncio.wrap_future(work)

    async def _close_home(self, home: Site) -> None:
        await self._hints.stop()
        await home.close()

    async def _at(self, act: Callable[[Site], Awaitable[Answer]]) -> Answer:
        home = self._home
        if home is None:
            raise Unavailable("the store is not open")
        if asyncio.get_running_loop() is self._home_loop:
            return await act(home)
        return await self._annex.run(act)

    async def ping(self) -> None:
        await self._at(lambda site: site.ask(doctor.ping, None))

    async def now(self) -> datetime | None:
        return await self._at(lambda site: site.ask(doctor.present, None))

    async def doctor(self) -> Sequence[Finding]:
        found = await self._at(lambda site: site.ask(doctor.doctor, None))
        return [*found, await commit_time(self.ping)]

    def listen(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hints.listen(heard)

    # Planner

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        asked = (micros(now), limit)
        return await self._at(lambda site: site.ask(schedules.due_schedules, asked))

    async def next_plan_at(self) -> datetime | None:
        found = await self._at(lambda site: site.ask(schedules.next_plan_at, None))
        return None if found is None else instant(found)

    async def lapsed(self, now: datetime, limit: int) -> Sequence[Job]:
        asked = (micros(now), limit)
        return await self._at(lambda site: site.ask(prune.lapsed, asked))

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        return await self._at(lambda site: site.ask(schedules.schedules_by_id, ids))

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._at(lambda site: site.apply_plans.put(plans))

    async def cancel_lapsed(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        request = prune.CancelLapsed(ids, reason, micros(now))
        return await self._at(lambda site: site.transact(prune.cancel_lapsed, request))

    # Dispatcher, worker, renewer

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._at(lambda site: claim.claim(site, request))

    async def name_queues(self, names: Collection[str]) -> None:
        await self._at(lambda site: site.ask(queues.name_queues, names))

    async def queue_names(self) -> Sequence[str]:
        return await self._at(lambda site: site.ask(queues.queue_names, None))

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        at = micros(now)
        starts = [(id, token, worker, at) for id, token in leases]
        return await self._at(lambda site: site.start.put(starts))

    async def send_from(self, sent: Sequence[Sent]) -> Sequence[bool]:
        sendings = list(map(sending.sending, sent))
        return await self._at(lambda site: site.send_from.put(sendings))

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        rows = list(map(settle.settled, settlements))
        return await self._at(lambda site: site.settle.put(rows))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._at(lambda site: site.note_progress.put(notes))

    async def beat(self, worker: Worker) -> Sequence[Held]:
        return await self._at(lambda site: site.beat(workers.beat, worker))

    async def held(self, worker: WorkerId) -> Sequence[Held]:
        return await self._at(lambda site: site.ask(leases.held, worker))

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[Held | None]:
        at = micros(until)
        renewals = [(id, token, at) for id, token in leases]
        return await self._at(lambda site: site.renew.put(renewals))

    # Rescuer, pruner

    async def workers(self) -> Sequence[Worker]:
        return await self._at(lambda site: site.ask(workers.workers, None))

    async def abandoned(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        asked = workers.Abandoned(dead, micros(now), limit)
        return await self._at(lambda site: site.ask(workers.abandoned, asked))

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._at(lambda site: site.ask(workers.forget_workers, ids))

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        bounds = days.Bounds(micros(finished_before), micros(failed_before), limit)
        return await self._at(lambda site: keeping.prune_finished(site, bounds))

    # Operations on schedules

    async def add_schedule(self, schedule: Schedule, plan: Plan) -> None:
        asked = (schedule, plan)
        await self._at(lambda site: site.transact(schedules.add_schedule, asked))

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        edit = schedules.Edit(schedule, plan, micros(now))
        return await self._at(lambda site: site.transact(schedules.update_schedule, edit))

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        asked = (id, micros(now))
        return await self._at(lambda site: site.transact(schedules.delete_schedule, asked))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        found = await self._at(lambda site: site.ask(schedules.schedules_by_id, [id]))
        return next(iter(found), None)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        return await self._at(lambda site: site.ask(schedules.schedule_by_key, key))

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        return await self._at(lambda site: site.ask(schedules.schedules, filter))

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        return await self._at(lambda site: site.ask(jobs.occurrence_jobs, filter))

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        asked = (id, micros(first), micros(last))
        return await self._at(lambda site: site.ask(planning.dispositions, asked))

    async def backfill(self, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
        request = planning.Backfill(id, jobs, skips)
        return await self._at(lambda site: site.transact(planning.backfill, request))

    # Operations on jobs

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        return await self._at(lambda site: site.enqueue.put(jobs))

    async def job(self, id: JobId) -> Job | None:
        return await self._at(lambda site: site.ask(jobs.job, id))

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        return await self._at(lambda site: site.ask(jobs.jobs, filter))

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self._at(lambda site: site.ask(history.attempts, id))

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self._at(lambda site: site.ask(history.transitions, id))

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        request = jobs.Cancel(ids, reason, micros(now))
        return await self._at(lambda site: site.transact(jobs.cancel, request))

    async def retry(self, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
        request = jobs.Retry(ids, micros(now))
        return await self._at(lambda site: site.transact(jobs.retry, request))

    # Operations on queues

    async def queues(self, now: datetime) -> Sequence[Queue]:
        return await self._at(lambda site: site.ask(queues.queues, micros(now)))

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        await self._at(lambda site: site.ask(queues.pause_queue, queues.Pause(name, paused)))

    async def limit_queue(self, name: str, limits: Limits) -> None:
        request = queues.Limiting(name, limits)
        await self._at(lambda site: site.transact(queues.limit_queue, request))

    async def stats(self, now: datetime) -> Stats:
        return await self._at(lambda site: site.transact(queues.stats, micros(now)))

    # Dead letters

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        await self._at(lambda site: site.ask(burying.bury, letters))

    async def dead_letters(
        self, before: LetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        asked = burying.Listing(before, limit, source)
        return await self._at(lambda site: site.ask(burying.dead_letters, asked))

    async def dead_letters_by_id(self, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
        return await self._at(lambda site: site.ask(burying.dead_letters_by_id, ids))

    async def exhume(self, ids: Collection[LetterId]) -> int:
        return await self._at(lambda site: site.ask(burying.exhume, ids))

    # Copying

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        asked = exporting.SchedulesAfter(after, limit)
        return await self._at(lambda site: site.ask(exporting.export_schedules, asked))

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[Traced]:
        asked = exporting.DispositionsAfter(after, limit)
        return await self._at(lambda site: site.ask(exporting.export_dispositions, asked))

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[Carton]:
        asked = exporting.JobsAfter(after, limit)
        return await self._at(lambda site: site.transact(exporting.export_jobs, asked))

    async def restore_schedules(self, schedules: Sequence[Schedule]) -> int:
        verb = restoring_schedules.restore_schedules
        return await self._at(lambda site: site.transact(verb, schedules))

    async def restore_dispositions(self, traced: Sequence[Traced]) -> int:
        verb = restoring_schedules.restore_dispositions
        return await self._at(lambda site: site.transact(verb, traced))

    async def restore_jobs(self, cartons: Sequence[Carton]) -> int:
        return await self._at(lambda site: site.transact(restoring_jobs.restore_jobs, cartons))
