"""Calls of a store that together run every statement of `stores.sql`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import pytest
from msgspec.structs import replace

from onbeat.model.access import AuditFilter
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.page import JobFilter, OccurrenceFilter, ScheduleFilter
from onbeat.model.plan import Dropped, Skip
from onbeat.model.queue import NO_LIMITS, Limits, Rate
from onbeat.model.schedule import Overlap, ScheduleStatus
from onbeat.ports.store import Store
from onbeat.rules.dependents import Cascade
from onbeat.stores.memory import MemoryStore
from onbeat.stores.sql.verbs import dependents
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_plan,
    a_schedule,
    a_worker,
    an_id,
    an_occurrence,
)
from onbeat.testing.store_contract.access import a_key, a_record
from onbeat.testing.store_contract.copy.jobs import copy
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.fan_out import CURSOR, sent_by
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    limit,
    run_and_end,
    run_job,
    slow_jobs,
)
from onbeat.testing.store_contract.targets import KINDS, change

BEFORE, AFTER = KINDS[0]
LATER = NOW + HOUR


async def use_keys_and_audit(store: Store) -> None:
    await store.secret(bytes(32))
    await store.add_key(a_key("ops"))
    await store.keys()
    await store.note_key_use("ops", NOW)
    await store.remove_key("ops")
    record = a_record()
    await store.put_audit(record)
    await store.audit(AuditFilter())
    await store.audit(
        AuditFilter(
            actor=record.actor,
            action=record.action,
            object=record.object,
            since=NOW,
            until=LATER,
            before=an_id(),
        )
    )
    await store.prune_audit(NOW, 10)


async def replace_targets(store: Store) -> None:
    schedule = a_schedule(target=BEFORE)
    await store.add_schedule(schedule, a_plan(schedule))
    ended = await run_and_end(store, a_job(target=BEFORE))
    live = await run_job(store, a_job(target=BEFORE))
    await store.replace_job_targets([change(one, AFTER) for one in (ended, live)])
    await store.replace_schedule_targets([change(schedule, AFTER)])


async def use_dead_letters(store: Store) -> None:
    letter = a_dead_letter()
    await store.add_dead_letters([letter])
    await store.dead_letters(None, 10)
    await store.dead_letters(letter.id, 10, "orders")
    await store.dead_letters_by_id([letter.id])
    await store.delete_dead_letters([letter.id])


async def use_queues(store: Store) -> None:
    await store.name_queues(["slow"])
    await store.queue_names()
    await store.pause_queue("slow", paused=False)
    rate = Rate(10, MINUTE)
    await limit(store, rate=rate, group_rate=rate, fair=True)
    await store.enqueue(slow_jobs(2, group="a"))
    await claim_jobs(store)
    await store.limit_queue("slow", NO_LIMITS)
    await store.queues(NOW)
    await store.stats(NOW)


async def use_workers(store: Store) -> None:
    worker = a_worker()
    await store.heartbeat(worker)
    await store.held_leases(worker.id)
    await store.workers()
    await store.rewrite_workers([worker.id])
    await store.forget_workers([worker.id])


async def list_jobs(store: Store) -> None:
    schedule = ScheduleId(an_id())
    await store.jobs(JobFilter())
    for state in JobState:
        await store.jobs(JobFilter(state=state))
    bounds = JobFilter(queue="slow", task="work", schedule_id=schedule, before=JobId(an_id()))
    await store.jobs(bounds)
    for ended in (False, True):
        await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule, ended=ended))


async def cancel_and_retry(store: Store) -> None:
    running, waiting = await run_job(store, a_job()), a_job(due_at=LATER)
    overdue = a_job(due_at=LATER, start_by=LATER)
    failed = await run_and_end(store, a_job(), FAILURE)
    await store.enqueue([waiting, overdue])
    await store.overdue_jobs(LATER + SECOND, 10)
    await store.cancel([running.id, waiting.id], "by hand", NOW)
    await store.cancel_overdue([overdue.id], "too late", LATER + SECOND)
    await store.retry([failed.id], NOW)
    await store.transitions(failed.id)


async def end_jobs_with_dependents(store: Store) -> None:
    first, second = await run_job(store, a_job()), await run_job(store, a_job())
    freed, cancelled = a_job(after=(first.id,)), a_job(after=(first.id, second.id))
    await store.enqueue([freed, cancelled])
    await store.enqueue([freed, cancelled])
    await end(store, first)
    await end(store, second, FAILURE)
    await store.enqueue([a_job(after=(second.id,))])


async def continue_cascades(store: Store) -> None:
    """Of more dependents than one transaction takes."""
    head = await run_job(store, a_job())
    await store.enqueue([a_job(after=(head.id,)) for _ in range(3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dependents, "Cascade", partial(Cascade, room=1))
        await end(store, head)
    await store.continue_cascades(NOW)


async def send_jobs(store: Store) -> None:
    sender = await run_job(store, a_job())
    sent = sent_by(sender, a_job(due_at=LATER), cursor=CURSOR, progress=Progress(1, 2))
    await store.enqueue_from([sent])


async def use_keyed_requests(store: Store) -> None:
    live, ended = a_job(due_at=LATER), a_job()
    requests = [a_keyed_request(job.id, job) for job in (live, ended)]
    for job, request in zip((live, ended), requests, strict=True):
        await store.enqueue([job], request)
    await end(store, await run_job(store, ended))
    await store.keyed_answer(requests[0].digest)
    schedule = a_schedule()
    await store.add_schedule(schedule, a_plan(schedule), a_keyed_request("schedule"))
    await store.forget_requests(before=NOW + DAY, now=NOW, limit=10)


async def plan_schedules(store: Store) -> None:
    schedule = a_schedule(key="hourly")
    first, second, ended = (an_occurrence(schedule, NOW + at * MINUTE) for at in range(3))
    dropped, late = (replace(job, start_by=LATER) for job in (first, second))
    await add_planned(store, schedule, dropped, late, skips=(Skip(LATER, LATER + HOUR, "paused"),))
    await store.due_schedules(NOW, 10)
    await store.next_plan_at()
    plan = a_plan(schedule, ended)
    await store.apply_plans([replace(plan, allowed_late=(late.id,))])
    await store.apply_plans([replace(plan, jobs=(), dropped=(Dropped(dropped.id, "too late"),))])
    await store.backfill(
        schedule.id,
        [an_occurrence(schedule, LATER + MINUTE)],
        [Skip(LATER + DAY, LATER + DAY, "by hand")],
    )
    await plan_again_what_has_ended(store, ended)
    await store.dispositions(schedule.id, NOW, LATER + DAY)


async def plan_again_what_has_ended(store: Store, job: Job) -> None:
    assert job.schedule_id is not None
    await store.cancel([job.id], "by hand", NOW)
    schedule = await store.schedule(job.schedule_id)
    assert schedule is not None
    later = LATER + 3 * DAY
    await store.apply_plans([a_plan(schedule, replace(job, due_at=later, occurrence=later))])


async def edit_schedules(store: Store) -> None:
    schedule = a_schedule(key="daily")
    jobs = [an_occurrence(schedule, NOW + at) for at in (MINUTE, DAY)]
    await add_planned(store, schedule, *jobs)
    await store.schedule_by_key("daily")
    await store.schedules(ScheduleFilter())
    await store.schedules(ScheduleFilter(status=ScheduleStatus.ACTIVE, q="day"))
    paused = replace(schedule, version=2, status=ScheduleStatus.PAUSED)
    await store.update_schedule(paused, None, NOW)
    changed = replace(schedule, version=3)
    await store.update_schedule(changed, a_plan(changed), NOW + HOUR)
    await store.delete_schedule(schedule.id, NOW)


async def apply_overlap_rules(store: Store) -> None:
    for overlap in (Overlap.SKIP, Overlap.WAIT, Overlap.REPLACE):
        schedule = a_schedule(overlap=overlap)
        jobs = [an_occurrence(schedule, NOW + at * SECOND) for at in range(3)]
        await add_planned(store, schedule, *jobs)
        await claim_jobs(store, limit=1)
        await claim_jobs(store, now=NOW + MINUTE)


async def export_all(store: Store) -> None:
    await store.export_schedules(None, 10)
    await store.export_schedules(ScheduleId(an_id()), 10)
    await store.export_dispositions(None, 10)
    await store.export_dispositions((ScheduleId(an_id()), NOW), 10)
    await store.export_jobs(None, 10)
    await store.export_jobs(JobId(an_id()), 10)


async def import_what_went_on_elsewhere(store: Store) -> None:
    """Copies of another store, each after some of its jobs and schedules have changed."""
    source = MemoryStore()
    await source.open()
    schedule = a_schedule(key="copied")
    await add_planned(source, schedule, an_occurrence(schedule, NOW + DAY))
    first = a_job(retry=IN_A_MINUTE)
    await source.enqueue([first, a_job(after=(first.id,))])
    await copy(source, store)
    edited = replace(schedule, version=2, updated_at=LATER)
    await source.update_schedule(edited, None, LATER)
    for outcome, now in ((PASSING_FAILURE, LATER), (FAILURE, LATER + MINUTE)):
        (running,) = await claim_jobs(source, now=now)
        await end(source, running, outcome, now)
        await copy(source, store)
    await source.retry([first.id], LATER)
    await copy(source, store)
    await source.close()


async def prune(store: Store) -> None:
    await run_and_end(store, a_job())
    await store.add_dead_letters([a_dead_letter()])
    await store.limit_queue("metered", Limits(rate=Rate(10, SECOND)))
    await store.enqueue([a_job(queue="metered")])
    await claim_jobs(store)
    later = NOW + 9 * DAY
    await store.prune(finished_before=later, failed_before=later, limit=100)


OPERATIONS: Final[tuple[Callable[[Store], Awaitable[None]], ...]] = (
    use_keys_and_audit,
    replace_targets,
    use_dead_letters,
    use_queues,
    use_workers,
    list_jobs,
    cancel_and_retry,
    end_jobs_with_dependents,
    continue_cascades,
    send_jobs,
    use_keyed_requests,
    plan_schedules,
    edit_schedules,
    apply_overlap_rules,
    export_all,
    import_what_went_on_elsewhere,
    prune,
)


async def run_all(store: Store) -> None:
    for operation in OPERATIONS:
        await operation(store)
