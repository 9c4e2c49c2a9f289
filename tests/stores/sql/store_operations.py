"""Calls of a store that together run every statement of `stores.sql`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import pytest
from msgspec.structs import replace

from onbeat.model.access import AuditFilter
from onbeat.model.bulk import BulkAction
from onbeat.model.event import StoredEvent
from onbeat.model.fault import OperatorNote
from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Edge, Job, JobState, Progress
from onbeat.model.keep_rule import Sweep
from onbeat.model.page import JobFilter, OccurrenceFilter, ScheduleFilter
from onbeat.model.plan import Dropped, Skip
from onbeat.model.pulse import Gauges
from onbeat.model.queue import NO_LIMITS, LatenessChange, Limits, Rate
from onbeat.model.reaction import EventPattern
from onbeat.model.route import EventKey
from onbeat.model.schedule import Overlap, ScheduleStatus
from onbeat.ports.events import EventFilter
from onbeat.ports.store import Store
from onbeat.rules.dependents import Cascade
from onbeat.rules.lateness import TYPE as LATE
from onbeat.rules.lateness import lateness_changes
from onbeat.rules.pulses import FINEST
from onbeat.stores.memory import MemoryStore
from onbeat.stores.sql.verbs import cancel_and_retry as verbs
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
from onbeat.testing.store_contract.alerts import a_silence, an_alert, announced, ended, seen
from onbeat.testing.store_contract.bulks import a_bulk, a_rescheduling
from onbeat.testing.store_contract.copy.jobs import copy
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.event_waits import (
    a_wait,
    ask,
    begin_wait,
    park,
    parked_job,
    review,
    route,
)
from onbeat.testing.store_contract.events import a_routing, add_reaction, an_event, open_job
from onbeat.testing.store_contract.fan_out import CURSOR, sent_by
from onbeat.testing.store_contract.faults import a_change
from onbeat.testing.store_contract.history import a_pulse
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.job_logs import a_line
from onbeat.testing.store_contract.live import a_batch
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
    await store.note_map_version(1)
    await store.note_map_version(2)
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


async def use_faults(store: Store) -> None:
    await store.note_faults([a_change(1)])
    await store.note_faults([a_change(1), a_change(2)])
    await store.faults()
    await store.fault(1)
    await store.silence_fault(1, LATER, "known")
    await store.write_fault_note(1, OperatorNote(text="known", by="ada", at=NOW))
    await store.fault_jobs([1], 10)
    await store.jobs(JobFilter(fault=1))
    for state in (JobState.FAILED, JobState.WAITING):
        await store.jobs(JobFilter(fault=1, state=state, before=JobId(an_id())))
    await store.prune_faults(LATER)
    letter = a_dead_letter()
    await store.add_dead_letters([letter])
    await store.dead_letter_heads(None, 10)
    await store.dead_letter_heads(letter.id, 10)


async def use_queues(store: Store) -> None:
    await store.name_queues(["slow"])
    await store.queue_names()
    await store.pause_queue("slow", paused=False)
    await store.group_depths("slow", 10)
    rate = Rate(10, MINUTE)
    await limit(store, rate=rate, group_rate=rate, fair=True)
    await store.enqueue(slow_jobs(2, group="a"))
    await claim_jobs(store)
    await store.limit_queue("slow", NO_LIMITS)
    await store.queues(NOW)
    await store.queues(NOW, Gauges(at=NOW))
    await store.stats(NOW)


async def watch_queues(store: Store) -> None:
    """One queue becomes late, and is in time again."""
    listener = a_schedule(on=(EventPattern(LATE),), plan_at=None)
    await store.add_schedule(listener, a_plan(listener))
    await store.limit_queue("late", Limits(late_after=SECOND))
    await store.enqueue([job := a_job(queue="late"), a_job(queue="late", group="a")])
    watched = await store.watched_queues(LATER)
    await store.note_lateness(lateness_changes(watched, LATER), LATER)
    await store.cancel([job.id], "by hand", LATER)
    await store.note_lateness([LatenessChange(queue="late", event=None)], LATER)
    await store.limit_queue("late", NO_LIMITS)


async def use_alerts(store: Store) -> None:
    """An alert begins, is told, ends, comes again, and is pruned; a silence is made and ended."""
    alert = an_alert()
    await store.note_alerts([seen(alert), announced(alert)], NOW)
    await store.note_alerts([ended(alert, LATER)], LATER)
    await store.note_alerts([seen(alert)], LATER)
    await store.note_alerts([seen(alert)], LATER + SECOND)
    await store.alerts(is_open=True, limit=10)
    await store.alerts(is_open=False, limit=10)
    await store.add_silence(a_silence("1", LATER))
    await store.silences(NOW)
    await store.end_silence("1")
    await store.prune_alerts(LATER, 10)


async def use_history(store: Store) -> None:
    await store.put_pulses([a_pulse()])
    await store.pulses(FINEST, NOW, LATER, 1)
    await store.pulses(FINEST, NOW, LATER, 1, series=False)
    await store.oldest_history(FINEST)
    sample = await store.count_depths(LATER, 100)
    ended = await store.count_ended(LATER)
    await store.put_sample(FINEST, replace(sample, ended=ended))
    await store.samples(FINEST, NOW, LATER, 1)
    await store.samples(FINEST, NOW, LATER, 1, queues=False)
    await store.newest_sample(FINEST)
    await store.fold_history(FINEST, NOW, LATER, [a_pulse()], [(60, sample)])


async def use_stream(store: Store) -> None:
    await store.watch_stream("here", LATER)
    await store.stream_watchers(NOW)
    await store.add_stream_batch(a_batch())
    await store.stream_batches(NOW, "here", 10)
    await store.prune_stream(LATER, 10)


async def use_workers(store: Store) -> None:
    worker = a_worker()
    await store.heartbeat(worker)
    await store.held_leases(worker.id)
    await store.hand_over(JobId(an_id()), Token(1), LATER)
    await store.workers()
    await store.rewrite_workers([worker.id])
    await store.forget_workers([worker.id], {worker.id: worker.beat + 1})
    await store.forget_workers([worker.id], {worker.id: worker.beat})


async def list_jobs(store: Store) -> None:
    schedule = ScheduleId(an_id())
    await store.jobs(JobFilter())
    for state in JobState:
        await store.jobs(JobFilter(state=state))
    bounds = JobFilter(queue="slow", task="work", schedule_id=schedule, before=JobId(an_id()))
    await store.jobs(bounds)
    for is_ended in (False, True):
        await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule, ended=is_ended))


async def draw_timelines(store: Store) -> None:
    ids = [ScheduleId(an_id()), ScheduleId(an_id())]
    await store.runs_between(ids, NOW, LATER, 200)
    await store.run_counts(ids, NOW, LATER, MINUTE, 1_000)
    await store.skips_between(ids, NOW, LATER, 2_000)
    await store.forgotten_between(ids, NOW, LATER, 2_000)


async def search_jobs(store: Store) -> None:
    job = await run_and_end(store, a_job(labels={"a": "b"}), FAILURE)
    named = JobFilter(ids=(job.id,))
    texts = JobFilter(label=("a:b",), error="broke", since=NOW, until=LATER, look=1)
    narrow = JobFilter(state=JobState.FAILED, task="wo*", queue="slow", flow=JobId(an_id()))
    for filter in (texts, narrow, named, JobFilter(state=JobState.WAITING, task="work")):
        await store.jobs(filter)
        await store.count_jobs(filter, 10)


async def keep_log_lines(store: Store) -> None:
    job = await run_and_end(store, a_job())
    await store.add_log_lines([a_line(job)])
    await store.log_lines(job.id, 0, 10)
    await store.log_lines(job.id, 0, 10, 1)
    await store.export_log_lines(None, 10)
    await store.export_log_lines((job.id, 1), 10)


async def use_bulks(store: Store) -> None:
    job = await run_and_end(store, a_job(), FAILURE)
    await store.enqueue([waiting := a_job(due_at=LATER)])
    put_off = a_rescheduling(waiting, LATER + HOUR, 1)
    for bulk in (a_bulk(job), put_off, a_bulk(waiting, BulkAction.CANCEL)):
        await store.add_bulk(bulk)
        await store.next_bulk()
        await store.run_bulk(bulk.id, NOW, 10)
        await store.bulk(bulk.id)
        await store.bulks(bulk.id, 10)
        await store.stop_bulk(bulk.id, NOW)
    await store.bulks(None, 10)
    await store.prune_bulks(LATER, 10)


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
    await store.enqueue([a_job(after=(first.id,), edges={first.id: Edge.FAILURE})])
    await store.enqueue([a_job(unique="taken")])
    double = a_job(unique="taken")
    await store.enqueue([double, a_job(after=(double.id,))])
    await end(store, first)
    await end(store, second, FAILURE)
    await store.enqueue([a_job(after=(second.id,))])
    await store.cancel([cancelled.id], "by hand", NOW)
    await store.retry([second.id], NOW)
    await store.jobs_by_id([first.id])


async def continue_cascades(store: Store) -> None:
    """Of more dependents than one transaction takes."""
    head = await run_job(store, a_job())
    await store.enqueue([a_job(after=(head.id,)) for _ in range(3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dependents, "Cascade", partial(Cascade, room=1))
        await end(store, head)
    await store.continue_cascades(NOW)


async def use_flows(store: Store) -> None:
    flow = JobId(an_id())
    one, last = a_job(flow=flow), a_job(awaits_flow=flow, flow=JobId(an_id()))
    await store.enqueue([one, last])
    await store.flow_counts([flow])
    await store.newest_flows(None, 10, 10)
    await store.jobs(JobFilter(flow=flow, state=JobState.WAITING))
    await store.cancel([last.id], "by hand", NOW)
    await store.retry([last.id], NOW)
    for job in await claim_jobs(store):
        await end(store, job)
    await store.close_flows(NOW)


async def continue_retries(store: Store) -> None:
    """Of more dependents than one transaction takes, some of which another end prevents.

    One is sensitive, and stays cancelled.
    """
    head, other = await run_job(store, a_job()), await run_job(store, a_job())
    await store.enqueue([a_job(after=(head.id,)) for _ in range(3)])
    await store.enqueue([a_job(after=(head.id,), sensitive=True)])
    await store.enqueue([a_job(after=(head.id, other.id))])
    await end(store, head, FAILURE)
    await end(store, other, FAILURE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs, "RETURNING_MAX", 1)
        await store.retry([head.id], NOW)
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
    await store.import_requests(await store.export_requests(None, 10))
    await store.forget_requests(before=NOW + DAY, now=NOW, limit=10)


async def hold_keys(store: Store) -> None:
    holder = await run_and_end(store, a_job(unique="key", unique_for=DAY))
    await store.enqueue([a_job(unique="key")])
    failed = await run_and_end(store, a_job(unique="other", unique_for=DAY), FAILURE)
    await store.retry([failed.id], NOW)
    await store.held_key("key", NOW)
    held = await store.export_held_keys(None, 10)
    await store.export_held_keys("key", 10)
    await store.import_held_keys(held)
    await store.prune_held_keys(NOW + DAY, 10)
    await store.vacuum()
    await store.job(holder.id)


async def announce_ends(store: Store) -> None:
    schedule = a_schedule(on=(EventPattern("onbeat.job.*"),), plan_at=None)
    await store.add_schedule(schedule, a_plan(schedule))
    await run_and_end(store, a_job(), FAILURE)
    waiting = a_job(sensitive=True)
    await store.enqueue([waiting])
    await store.cancel([waiting.id], "by hand", NOW)


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
    await store.trigger(schedule.id, a_job(schedule_id=schedule.id))
    await store.backfill(
        schedule.id,
        [an_occurrence(schedule, LATER + MINUTE)],
        [Skip(LATER + DAY, LATER + DAY, "by hand")],
    )
    await plan_again_what_has_ended(store, ended)
    await store.dispositions(schedule.id, NOW, LATER + DAY)
    await store.latest_dispositions(schedule.id, LATER + DAY, 10)
    await store.reschedule(late.id, LATER, NOW)


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
    await store.schedules_of_owner("billing")
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


async def publish_and_route(store: Store) -> None:
    await store.publish([an_event(), an_event()], NOW)
    event = an_event()
    await store.publish([event, event], NOW)
    schedule = await add_reaction(store, EventPattern("onbeat.job.*"))
    await store.event_schedules({})
    first = await open_job(store, schedule, due_at=NOW)
    await run_all_due(store)
    job = await open_job(store, schedule)
    await open_job(store, schedule)
    key = EventKey(schedule.id, "o-1")
    await store.keyed_jobs([key])
    await store.publish([an_event()], NOW)
    unrouted = await store.unrouted_events(10)
    routing = a_routing(
        unrouted.events, schedule, joined=(job.id,), unread=(job.id,), postponed={job.id: LATER}
    )
    await store.route(routing)
    await store.events_of_job(first.id)
    (again,) = await store.events_by_id(unrouted.events[0].event.id)
    await store.events_by_id(event.id, event.source)
    await store.replay_event(again.seq)
    await store.unrouted_events(10)
    await store.wanted_types()
    await list_and_copy_events(store, again)
    await store.prune(finished_before=LATER, failed_before=LATER, limit=100)
    await store.prune_events(LATER, 100)
    await store.delete_schedule(schedule.id, NOW)


async def wait_for_events(store: Store) -> None:
    """Jobs wait for an event that comes later, that came at the call, and that comes meanwhile."""
    await parked_job(store)
    await review(store)
    await route(store)
    job = await run_job(store, a_job())
    await ask(store, job, await begin_wait(store, job))
    await begin_wait(store, job, step="another", by=None)
    await review(store)
    await route(store)
    await park(store, job, a_wait(job, step="another"))
    exports = await store.export_event_waits(None, 10)
    await store.export_event_waits((exports[0].wait.job_id, exports[0].wait.step), 10)
    await store.import_event_waits(exports)
    await store.cancel([job.id], "enough", NOW)
    await store.prune_events(NOW, 10)


async def run_all_due(store: Store) -> None:
    for running in await claim_jobs(store):
        await end(store, running)


async def list_and_copy_events(store: Store, known: StoredEvent) -> None:
    await store.events(EventFilter(limit=10))
    await store.events(EventFilter(limit=10, before=known.seq, type="order.paid", source="/*"))
    events = await store.export_events(None, 10)
    await store.export_events(known.seq, 10)
    routed = replace(known, routed_at=LATER)
    await store.import_events([replace(events[0], event=routed)])
    keys = await store.export_event_keys(None, 10)
    await store.export_event_keys(keys[0].job_id, 10)
    await store.import_event_keys(keys)


async def prune(store: Store) -> None:
    await run_and_end(store, a_job())
    await store.add_dead_letters([a_dead_letter()])
    await store.limit_queue("metered", Limits(rate=Rate(10, SECOND)))
    await store.enqueue([a_job(queue="metered")])
    await claim_jobs(store)
    later = NOW + 9 * DAY
    await store.sweep(Sweep(state=JobState.SUCCEEDED, before=later, others=("slow",)), 100)
    await run_and_end(store, a_job())
    await store.prune(finished_before=later, failed_before=later, limit=100)


OPERATIONS: Final[tuple[Callable[[Store], Awaitable[None]], ...]] = (
    use_keys_and_audit,
    replace_targets,
    use_dead_letters,
    use_faults,
    use_queues,
    watch_queues,
    use_alerts,
    use_history,
    use_stream,
    use_workers,
    list_jobs,
    draw_timelines,
    search_jobs,
    use_bulks,
    keep_log_lines,
    cancel_and_retry,
    hold_keys,
    announce_ends,
    end_jobs_with_dependents,
    continue_cascades,
    continue_retries,
    use_flows,
    send_jobs,
    use_keyed_requests,
    plan_schedules,
    edit_schedules,
    apply_overlap_rules,
    export_all,
    import_what_went_on_elsewhere,
    publish_and_route,
    wait_for_events,
    prune,
)


async def run_all(store: Store) -> None:
    for operation in OPERATIONS:
        await operation(store)
