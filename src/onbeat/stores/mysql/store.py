"""The store as its readers see it: a verb goes to the connections of its caller's event loop."""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from weakref import WeakKeyDictionary

from onbeat.model.attempt import Attempt
from onbeat.model.errors import Misconfigured, Unavailable
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
from onbeat.stores.mysql import (
    claim,
    doctor,
    enqueue,
    exporting,
    history,
    jobs,
    planning,
    prune,
    queues,
    restoring,
    schedules,
    sending,
    settle,
    workers,
)
from onbeat.stores.mysql.faults import is_setting
from onbeat.stores.mysql.hints import Hints
from onbeat.stores.mysql.leases import Abandoned, Renewal, Takeover, abandoned, held, renew
from onbeat.stores.mysql.letters import Listing, bury, dead_letters, dead_letters_by_id, exhume
from onbeat.stores.mysql.migrate import migrate
from onbeat.stores.mysql.place import read_place
from onbeat.stores.mysql.site import Site
from onbeat.stores.mysql.unpacking import restore_jobs, unpacked
from onbeat.stores.sql.commits import commit_time
from onbeat.stores.sql.values import instant, micros

POOL_MAX = 8


class MysqlStore:
    """All state in one database of a MySQL or MariaDB server, which many machines may share.

    At most `pool_max` connections for each event loop that uses it, one more for its beats, and one
    while somebody listens.
    """

    def __init__(self, url: str, *, pool_max: int = POOL_MAX) -> None:
        self._place = read_place(url)
        self._pool_max = pool_max
        self._hints = Hints(self._place)
        self._sites: WeakKeyDictionary[asyncio.AbstractEventLoop, Site] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._opened = False

    @property
    def _site(self) -> Site:
        """What belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            site = self._sites.get(loop)
            if site is None:
                if not self._opened:
                    raise Unavailable("the store is not open")
                site = self._sites[loop] = Site(self._place, self._hints, self._pool_max)
            return site

    @property
    def url(self) -> str:
        return self._place.url

    async def open(self) -> None:
        self._opened = True
        try:
            await self._site.ask(migrate, self._place)
        except Exception as error:
            await self.close()
            if is_setting(error.__cause__):
                raise Misconfigured(str(error), key="store") from error.__cause__
            raise
        self._hints.open()

    async def close(self) -> None:
        self._opened = False
        with self._lock:
            sites = list(self._sites.values())
            self._sites.clear()
        for site in sites:
            await site.close()
        await asyncio.to_thread(self._hints.close)

    async def ping(self) -> None:
        await self._site.ask(doctor.ping, None)

    async def now(self) -> datetime | None:
        return await self._site.ask(doctor.present, None)

    async def doctor(self) -> Sequence[Finding]:
        found = await self._site.ask(doctor.doctor, None)
        return [*found, await commit_time(self.ping)]

    def listen(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        return self._hints.listen(heard)

    # Planner

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        return await self._site.ask(schedules.due_schedules, (micros(now), limit))

    async def next_plan_at(self) -> datetime | None:
        found = await self._site.ask(schedules.next_plan_at, None)
        return None if found is None else instant(found)

    async def lapsed(self, now: datetime, limit: int) -> Sequence[Job]:
        return await self._site.ask(prune.lapsed, (micros(now), limit))

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        return await self._site.ask(schedules.schedules_by_id, ids)

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._site.apply_plans.put(plans)

    async def cancel_lapsed(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        request = prune.CancelLapsed(ids, reason, micros(now))
        return await self._site.transact(prune.cancel_lapsed, request)

    # Dispatcher

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await claim.claim(self._site, request)

    async def name_queues(self, names: Collection[str]) -> None:
        await self._site.ask(queues.name_queues, names)

    async def queue_names(self) -> Sequence[str]:
        return await self._site.ask(queues.queue_names, None)

    # Worker, renewer

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        return await self._site.start.put([Takeover(worker, *lease, now) for lease in leases])

    async def send_from(self, sent: Sequence[Sent]) -> Sequence[bool]:
        return await self._site.transact(sending.send_from, list(map(sending.sending, sent)))

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await self._site.settle.put(list(map(settle.settled, settlements)))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._site.note_progress.put(notes)

    async def beat(self, worker: Worker) -> Sequence[Held]:
        return await self._site.beat(workers.beat, worker)

    async def held(self, worker: WorkerId) -> Sequence[Held]:
        return await self._site.beat(held, worker)

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[Held | None]:
        return await self._site.transact(renew, Renewal(leases, micros(until)))

    # Rescuer, pruner

    async def workers(self) -> Sequence[Worker]:
        return await self._site.ask(workers.workers, None)

    async def abandoned(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        return await self._site.ask(abandoned, Abandoned(dead, micros(now), limit))

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._site.ask(workers.forget_workers, ids)

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        request = prune.Prune(micros(finished_before), micros(failed_before), limit)
        return await self._site.transact(prune.prune, request)

    # Operations on schedules

    async def add_schedule(self, schedule: Schedule, plan: Plan) -> None:
        await self._site.transact(schedules.add_schedule, (schedule, plan))

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        return await self._site.transact(schedules.update_schedule, (schedule, plan, micros(now)))

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        return await self._site.transact(schedules.delete_schedule, (id, micros(now)))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        return next(iter(await self._site.ask(schedules.schedules_by_id, [id])), None)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        return await self._site.ask(schedules.schedule_by_key, key)

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        return await self._site.ask(schedules.schedules, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        return await self._site.ask(jobs.occurrence_jobs, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        return await self._site.ask(planning.dispositions, (id, micros(first), micros(last)))

    async def backfill(self, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
        return await self._site.transact(planning.backfill, (id, jobs, skips))

    # Operations on jobs

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        return await self._site.enqueue.put(list(map(enqueue.new_job, jobs)))

    async def job(self, id: JobId) -> Job | None:
        return await self._site.ask(jobs.job, id)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        return await self._site.ask(jobs.jobs, filter)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self._site.ask(history.attempts, id)

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self._site.ask(history.transitions, id)

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        return await self._site.transact(jobs.cancel, jobs.Cancel(ids, reason, micros(now)))

    async def retry(self, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
        return await self._site.transact(jobs.retry, jobs.Retry(ids, micros(now)))

    # Operations on queues

    async def queues(self, now: datetime) -> Sequence[Queue]:
        return await self._site.ask(queues.queues, micros(now))

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        await self._site.ask(queues.pause_queue, queues.Pause(name, paused))

    async def limit_queue(self, name: str, limits: Limits) -> None:
        await self._site.transact(queues.limit_queue, queues.Limit(name, limits))

    async def stats(self, now: datetime) -> Stats:
        return await self._site.ask(queues.stats, micros(now))

    # Dead letters

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        await self._site.transact(bury, letters)

    async def dead_letters(
        self, before: LetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        return await self._site.ask(dead_letters, Listing(before, limit, source))

    async def dead_letters_by_id(self, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
        return await self._site.ask(dead_letters_by_id, ids)

    async def exhume(self, ids: Collection[LetterId]) -> int:
        return await self._site.ask(exhume, ids)

    # Copies

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        return await self._site.ask(exporting.export_schedules, (after, limit))

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[Traced]:
        return await self._site.ask(exporting.export_dispositions, (after, limit))

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[Carton]:
        return await self._site.view(exporting.export_jobs, (after, limit))

    async def restore_schedules(self, schedules: Sequence[Schedule]) -> int:
        return await self._site.transact(restoring.restore_schedules, schedules)

    async def restore_dispositions(self, traced: Sequence[Traced]) -> int:
        return await self._site.transact(restoring.restore_dispositions, traced)

    async def restore_jobs(self, cartons: Sequence[Carton]) -> int:
        return await self._site.transact(restore_jobs, list(map(unpacked, cartons)))
