"""The store methods that are the same for every database, or for every database server."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.attempt import Attempt
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import RequestInFlight
from onbeat.model.event import Stats, Transition
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
from onbeat.model.schedule import Schedule
from onbeat.model.worker import WorkerRecord
from onbeat.ports.access import TargetChange
from onbeat.ports.store import Disposition, DispositionExport, Enqueued, HeldLease, JobExport
from onbeat.stores.sql.loop_connections import LoopConnections
from onbeat.stores.sql.session import Answer, P, Session, Verb, bind_verb
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs import (
    access,
    cancel_and_retry,
    counts,
    dependents,
    edit_schedules,
    history,
    imports,
    prune,
    queues,
    workers,
)
from onbeat.stores.sql.verbs import dead_letters as dead_letter_verbs
from onbeat.stores.sql.verbs import dispositions as disposition_verbs
from onbeat.stores.sql.verbs import jobs as job_verbs
from onbeat.stores.sql.verbs import plans as plan_verbs
from onbeat.stores.sql.verbs import schedules as schedule_verbs
from onbeat.stores.sql.verbs.idempotency import (
    KeyedJobs,
    KeyVerbs,
    forget_requests,
    keyed_answers,
    run_keyed,
)

POOL_MAX = 8

T = TypeVar("T", bound=Session)
Connections = TypeVar("Connections", bound=LoopConnections[Any, Any])


class SqlStore(ABC, Generic[T]):
    """Subclasses define how verbs run, and add the methods that differ by database.

    `T` is the argument of verbs: a connection inside a transaction.
    """

    def __init__(self, keys: KeyVerbs[T, Any]) -> None:
        self._keys = keys

    @abstractmethod
    async def _read(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a read-only verb. Each of its statements may see a different state."""

    @abstractmethod
    async def _transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """Run a verb in one transaction."""

    async def _snapshot(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        """Run a read-only verb. All of its statements see the same state."""
        return await self._read(verb, *args, **options)

    async def _run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """Run a verb whose single writing statement is its own transaction."""
        return await self._transact(verb, *args, **options)

    async def _beat(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        """As `_run`, on a path that other work cannot delay."""
        return await self._run(verb, *args, **options)

    async def _write(
        self,
        keyed: KeyedRequest | None,
        verb: Verb[T, P, Answer],
        *args: P.args,
        **options: P.kwargs,
    ) -> Answer:
        """Run a verb in one transaction, with the idempotency key of its request if it has one."""
        if keyed is None:
            return await self._transact(verb, *args, **options)
        work = bind_verb(verb, *args, **options)
        return await self._transact(run_keyed, self._keys, keyed, work)

    # Planner

    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.due_schedules, micros(now), limit)

    async def next_plan_at(self) -> datetime | None:
        value = await self._read(schedule_verbs.next_plan_at)
        return None if value is None else instant(value)

    async def overdue_jobs(self, now: datetime, limit: int) -> Sequence[Job]:
        return await self._read(prune.overdue_jobs, micros(now), limit)

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.schedules_by_id, ids)

    async def cancel_overdue(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        return await self._transact(cancel_and_retry.cancel_overdue, ids, reason, micros(now))

    async def continue_cascades(self, now: datetime) -> int:
        if not await self._read(dependents.has_cascades):
            return 0
        return await self._transact(dependents.continue_cascades, micros(now))

    # Dispatcher, renewer, rescuer

    async def name_queues(self, names: Collection[str]) -> None:
        if unnamed := await self._read(queues.unnamed_queues, names):
            await self._run(queues.name_queues, unnamed)

    async def queue_names(self) -> Sequence[str]:
        return await self._read(queues.queue_names)

    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        return await self._beat(workers.heartbeat, worker)

    async def held_leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        return await self._beat(workers.held_leases, worker)

    async def workers(self) -> Sequence[WorkerRecord]:
        return await self._read(workers.workers)

    async def rewrite_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._run(workers.rewrite_workers, ids)

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        return await self._run(workers.forget_workers, ids)

    async def forget_requests(self, *, before: datetime, now: datetime, limit: int) -> int:
        return await self._transact(forget_requests, micros(before), micros(now), limit)

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        (answer,) = await self._read(keyed_answers, [digest])
        return answer

    # Operations on schedules

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        await self._write(keyed, edit_schedules.add_schedule, schedule, plan)

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        return await self._transact(edit_schedules.update_schedule, schedule, plan, micros(now))

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        return await self._transact(edit_schedules.delete_schedule, id, micros(now))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        return next(iter(await self._read(schedule_verbs.schedules_by_id, [id])), None)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        return await self._read(schedule_verbs.schedule_by_key, key)

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        return await self._read(schedule_verbs.schedules, filter)

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        return await self._read(job_verbs.occurrence_jobs, filter)

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        return await self._read(disposition_verbs.dispositions, id, micros(first), micros(last))

    async def backfill(
        self,
        id: ScheduleId,
        jobs: Sequence[Job],
        skips: Sequence[Skip],
        keyed: KeyedRequest | None = None,
    ) -> int:
        return await self._write(keyed, plan_verbs.backfill, id, jobs, skips)

    # Operations on jobs

    async def job(self, id: JobId) -> Job | None:
        return await self._read(job_verbs.job, id)

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        return await self._read(job_verbs.jobs, filter)

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        return await self._read(history.attempts, id)

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        return await self._read(history.transitions, id)

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        return await self._transact(cancel_and_retry.cancel, ids, reason, micros(now))

    async def retry(
        self, ids: Sequence[JobId], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[Job | None]:
        return await self._write(keyed, cancel_and_retry.retry, ids, micros(now))

    # Operations on queues

    async def queues(self, now: datetime) -> Sequence[Queue]:
        return await self._read(counts.queues, micros(now))

    async def pause_queue(self, name: str, *, paused: bool) -> None:
        await self._run(queues.pause_queue, name, paused=paused)

    async def limit_queue(self, name: str, limits: Limits) -> None:
        await self._transact(queues.limit_queue, name, limits)

    async def stats(self, now: datetime) -> Stats:
        return await self._snapshot(counts.stats, micros(now))

    # Dead letters

    async def add_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        await self._transact(dead_letter_verbs.add_dead_letters, dead_letters)

    async def dead_letters(
        self, before: DeadLetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        return await self._read(dead_letter_verbs.dead_letters, before, limit, source)

    async def dead_letters_by_id(self, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
        return await self._read(dead_letter_verbs.dead_letters_by_id, ids)

    async def delete_dead_letters(
        self, ids: Collection[DeadLetterId], keyed: KeyedRequest | None = None
    ) -> int:
        return await self._write(keyed, dead_letter_verbs.delete_dead_letters, ids)

    # Access

    async def secret(self, fresh: bytes) -> bytes:
        known = await self._read(access.known_secret)
        return known if known is not None else await self._transact(access.secret, fresh)

    async def add_key(self, key: ApiKey) -> None:
        await self._transact(access.add_key, access.key_row(key))

    async def keys(self) -> Sequence[ApiKey]:
        return await self._read(access.keys)

    async def remove_key(self, name: str) -> bool:
        return await self._run(access.remove_key, name)

    async def note_key_use(self, name: str, at: datetime) -> None:
        await self._run(access.note_key_use, name, micros(at))

    async def put_audit(self, record: AuditRecord) -> None:
        await self._run(access.put_audit, access.audit_row(record))

    async def audit(self, filter: AuditFilter) -> Sequence[AuditRecord]:
        return await self._read(access.audit, filter)

    async def prune_audit(self, before: datetime, limit: int) -> int:
        return await self._run(access.prune_audit, micros(before), limit)

    async def replace_job_targets(self, changes: Sequence[TargetChange]) -> int:
        return await self._transact(access.replace_job_targets, changes)

    async def replace_schedule_targets(self, changes: Sequence[TargetChange]) -> int:
        return await self._transact(access.replace_schedule_targets, changes)

    # Copies

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        return await self._read(schedule_verbs.export_schedules, after, limit)

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[DispositionExport]:
        return await self._snapshot(disposition_verbs.export_dispositions, after, limit)

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[JobExport]:
        return await self._snapshot(job_verbs.export_jobs, after, limit)

    async def import_schedules(self, schedules: Sequence[Schedule]) -> int:
        return await self._transact(imports.import_schedules, schedules)

    async def import_jobs(self, exports: Sequence[JobExport]) -> int:
        return await self._transact(imports.import_jobs, exports)

    async def import_dispositions(self, rows: Sequence[DispositionExport]) -> int:
        return await self._transact(disposition_verbs.import_dispositions, rows)


class ServerStore(SqlStore[T], Generic[Connections, T]):
    """Subclasses choose the connections for the running event loop."""

    @abstractmethod
    async def _at(self, act: Callable[[Connections], Awaitable[Answer]]) -> Answer:
        """Act with connections of the running loop, or in the loop of other connections."""

    async def _read(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.transact(verb, *args, **options))

    async def _snapshot(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.view(verb, *args, **options))

    async def _beat(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run_heartbeat(verb, *args, **options))

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.apply_plans.submit(plans))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.note_progress.submit(notes))

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        (answer,) = await self._at(lambda connections: connections.keyed_answers.submit([digest]))
        return answer

    async def _enqueue_keyed(self, keyed: KeyedRequest, jobs: Sequence[Any]) -> Sequence[Enqueued]:
        """Add a few jobs, in one transaction with other requests."""
        request = KeyedJobs(keyed, jobs)
        (answer,) = await self._at(lambda connections: connections.enqueue_keyed.submit([request]))
        if answer is None:
            raise RequestInFlight
        return answer
