"""Why a job does not run: every reason, the deepest first, from what is known of it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.outcome import UNANSWERED
from onbeat.model.queue import NO_LIMITS, Queue
from onbeat.model.schedule import PauseReason, Schedule
from onbeat.model.target import CommandTarget, NotifyTarget, Target, lane_of
from onbeat.model.worker import WorkerRecord
from onbeat.rules.condition import FALSE
from onbeat.rules.event_waits import is_awaiting, is_endless
from onbeat.rules.suspicion import times
from onbeat.rules.windows import opening_at_or_after

SHOWN_MAX: Final = 10
"""The number of predecessors that an explanation names."""


class Blocker(msgspec.Struct, frozen=True):
    """One reason that a job does not run; `until` where it passes by itself."""

    code: str
    words: str
    until: datetime | None = None
    jobs: tuple[str, ...] = ()


class Gathered(msgspec.Struct, frozen=True):
    """How many events of `key` a job has, and until when others may join it."""

    key: str
    count: int
    until: datetime


class WaitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a waiting job at `now`.

    `schedule` is its schedule if that is paused. `predecessors` are the first of those that it
    waits for; `members` the first live jobs of a flow that it waits for, which has `live` in all.
    `beside` jobs of its group run. `rate` and `group_rate` are the rates of its queue in words.
    `calls` of its task are in flight to remote workers. `workers` are those that are alive.
    """

    job: Job
    now: datetime
    queue: Queue
    schedule: Schedule | None = None
    predecessors: tuple[JobId, ...] = ()
    members: tuple[JobId, ...] | None = None
    live: int = 0
    gathered: Gathered | None = None
    beside: int = 0
    rate: str | None = None
    group_rate: str | None = None
    calls: int = 0
    workers: Sequence[WorkerRecord] = ()


def reasons(facts: WaitFacts) -> Sequence[Blocker]:
    """Why the waiting job does not run, at least one."""
    ready = Blocker("ready", "It is due and about to start.", facts.now)
    return list(blockers(facts)) or [ready]


def blockers(facts: WaitFacts) -> Iterator[Blocker]:
    job, now = facts.job, facts.now
    if job.start_by is not None and job.start_by < now:
        by = instant_text(job.start_by)
        yield Blocker("lapsed", f"It should have started by {by} and will be cancelled.")
    if job.blocked_by > 0:
        yield unfinished(facts)
    if facts.queue.paused:
        yield queue_paused(facts.queue)
    if facts.schedule is not None:
        yield Blocker("schedule_paused", f"Its schedule is paused{pause_words(facts.schedule)}.")
    if job.due_at > now:
        gathered = facts.gathered
        yield waiting_for_time(job) if gathered is None else still_gathering(job, gathered)
    if (opening := opening_at_or_after(job.window, now)) > now:
        yield Blocker("window", f"Its window opens at {instant_text(opening)}.", opening)
    yield from limit_blockers(facts)
    yield from no_answer(facts) or missing_worker(job, facts.workers, is_due=job.due_at <= now)
    yield from kept_apart(job)
    yield from earlier_jobs(facts.queue, job, now)


def queue_paused(queue: Queue) -> Blocker:
    """Who paused it since when, and their note, where that is known."""
    words = f"Its queue {queue.name} is paused"
    if queue.pause is not None:
        words += f" by {queue.pause.by} since {instant_text(queue.pause.at)}"
    end = f": {queue.pause.note}" if queue.pause is not None and queue.pause.note else "."
    return Blocker("queue_paused", words + end)


def unfinished(facts: WaitFacts) -> Blocker:
    """Whose end it waits for."""
    job, ids = facts.job, facts.predecessors
    if facts.members is not None:
        return unfinished_members(job, facts.members, facts.live)
    if not ids:
        return Blocker("overlap", "It waits for an earlier job of its schedule to end.")
    more = f" and {job.blocked_by - len(ids)} more" if job.blocked_by > SHOWN_MAX else ""
    words = f"It waits for {', '.join(wanted_end(job, id) for id in ids)}{more}."
    return Blocker("blocked", words, jobs=ids)


def unfinished_members(job: Job, members: tuple[JobId, ...], live: int) -> Blocker:
    if not members:
        return Blocker("blocked", f"Flow {job.awaits_flow} has just ended.")
    rest = f" and {live - SHOWN_MAX} more" if live > SHOWN_MAX else ""
    words = f"It waits for flow {job.awaits_flow} to end: {', '.join(members)}{rest}."
    return Blocker("blocked", words, jobs=members)


def still_gathering(job: Job, gathered: Gathered) -> Blocker:
    count = gathered.count
    events = f"{count} event{'' if count == 1 else 's'}"
    key = f" of key {gathered.key!r}" if gathered.key else ""
    return Blocker(
        "gathering",
        f"It gathers events{key} until {instant_text(gathered.until)}, and has {events};"
        f" it is due at {instant_text(job.due_at)}.",
        job.due_at,
    )


def key_it_holds(job: Job, held: HeldKey) -> Blocker:
    """Until when an ended job keeps its unique key from others."""
    holder = "It" if held.job_id == job.id else f"Job {held.job_id}"
    until = "always" if held.until is None else f"until {instant_text(held.until)}"
    return Blocker("key_held", f"{holder} holds the unique key {job.unique!r} {until}.")


def not_waiting(job: Job) -> Blocker:
    """The explanation for a job that does not wait."""
    match job.state:
        case JobState.RUNNING if job.cancel_reason is not None:
            return Blocker("stopping", f"It runs and was asked to stop: {job.cancel_reason}.")
        case JobState.RUNNING:
            words = f"It runs on worker {job.worker}, attempt {job.attempt}"
            apart = "".join(f", {how}, and may wait there for that" for how in company(job))
            return Blocker("running", f"{words}{apart}.")
        case JobState.SUCCEEDED:
            return Blocker("succeeded", "It has succeeded.")
        case JobState.CANCELLED:
            reason = job.reason or job.cancel_reason or "no reason given"
            return Blocker("cancelled", f"It was cancelled: {reason}. It can be retried.")
        case _:
            answer = ": ".join(text for text in (job.reason, summary(job.error)) if text)
            return Blocker("failed", f"It has failed: {answer[:500]}. It can be retried.")


def without_worker(job: Job) -> Blocker:
    """The explanation for a running job whose worker is not heard of any more."""
    return Blocker(
        "worker_silent",
        f"It ran on worker {job.worker}, attempt {job.attempt}, which is not heard of any more."
        " A process with the maintenance role takes it back, and it runs again.",
    )


def call_sent(job: Job, unanswered: int) -> Blocker:
    """The explanation for a job whose call is in flight, after so many without an answer."""
    assert job.started_at is not None, "a claimed job has started"
    assert job.lease_until is not None, "a call has a timed lease"
    sent, again = instant_text(job.started_at), instant_text(job.lease_until)
    before = f" No worker answered its last {unanswered} calls." if unanswered > 1 else ""
    before = " No worker answered its last call." if unanswered == 1 else before
    return Blocker(
        "sent",
        f"Its call was sent to remote workers at {sent}, attempt {job.attempt}, and no worker has"
        f" answered yet; without an answer it is sent again after {again}.{before}",
    )


def no_answer(facts: WaitFacts) -> Sequence[Blocker]:
    """Remote workers that do not answer, or not yet, as the reason."""
    job, calls = facts.job, facts.calls
    words = [f"Its last call was sent in vain: {UNANSWERED}."] if job.error == UNANSWERED else []
    if calls:
        lane = lane_of(job.target)
        wait = f"1 call of {lane} waits" if calls == 1 else f"{calls} calls of {lane} wait"
        words.append(f"{wait} for remote workers to answer, and others are sent after that.")
    return [Blocker("no_answer", " ".join(words))] if words else []


def waiting_for_time(job: Job) -> Blocker:
    if job.condition is not None and (job.reason or "").startswith(FALSE):
        return Blocker(
            "condition",
            f"Its {job.reason}; it is asked again at {instant_text(job.due_at)}.",
            job.due_at,
        )
    if is_awaiting(job.reason):
        return Blocker("event", f"It {job.reason}.", None if is_endless(job) else job.due_at)
    if job.reason is not None:
        return Blocker(
            "put_off", f"It was put off until {instant_text(job.due_at)}: {job.reason}.", job.due_at
        )
    if job.error is not None and job.attempt > 0:
        error = summary(job.error)[:200]
        return Blocker(
            "retry_later",
            f"Attempt {job.attempt} of {job.retry.attempts_max} failed ({error});"
            f" it is tried again at {instant_text(job.due_at)}.",
            job.due_at,
        )
    return Blocker("later", f"It is due at {instant_text(job.due_at)}.", job.due_at)


ENDS: Final = {Edge.SUCCESS: "to succeed", Edge.FAILURE: "to fail", Edge.END: "to end"}


def wanted_end(job: Job, other: JobId) -> str:
    return f"{other} {ENDS[job.edge_to(other)]}"


def limit_blockers(facts: WaitFacts) -> Iterator[Blocker]:
    """The reasons from the limits of the queue."""
    queue, job, beside = facts.queue, facts.job, facts.beside
    if job.due_at > facts.now or queue.limits == NO_LIMITS:
        return
    limits, group = queue.limits, f"Group {job.group} of queue {queue.name}"
    if limits.concurrency is not None and queue.running >= limits.concurrency:
        yield capacity_blocker(
            "queue_full", f"Queue {queue.name}", queue.running, limits.concurrency
        )
    elif facts.rate is not None:
        yield rate_blocker("queue_rate", f"Queue {queue.name}", facts.rate)
    if job.group is None:
        return
    if limits.group_concurrency is not None and beside >= limits.group_concurrency:
        yield capacity_blocker("group_full", group, beside, limits.group_concurrency)
    elif facts.group_rate is not None:
        yield rate_blocker("group_rate", group, facts.group_rate)


def kept_apart(job: Job) -> Iterator[Blocker]:
    """A suspected job waits for a worker that holds few enough other jobs."""
    for how in company(job):
        died = f"Its worker died {times(job.lost)} while it ran"
        yield Blocker("apart", f"{died}, so it runs apart: {how}.")


def company(job: Job) -> Iterator[str]:
    """How many jobs its worker may hold at once, where this is bounded."""
    most = None if job.suspicion is None else job.suspicion.company_max
    if most == 1:
        yield "alone in its worker"
    elif most is not None:
        yield f"one of at most {most} jobs in its worker"


def earlier_jobs(queue: Queue, job: Job, now: datetime) -> Iterator[Blocker]:
    if queue.limits.fair and queue.due > 1 and job.due_at <= now:
        yield Blocker(
            "turn", f"The groups of queue {queue.name} take turns, and others may go first."
        )


def capacity_blocker(code: str, what: str, running: int, most: int) -> Blocker:
    return Blocker(code, f"{what} runs {running} of {most} jobs.")


def pause_words(schedule: Schedule) -> str:
    owner = schedule.owner or "its program"
    match schedule.pause_reason:
        case PauseReason.ORPHANED:
            return f": {owner} no longer declares it"
        case PauseReason.DECLARED:
            return f": {owner} declares it so"
        case None:
            return ""


def missing_worker(job: Job, workers: Sequence[WorkerRecord], *, is_due: bool) -> Sequence[Blocker]:
    """A missing or busy worker as the reason; busy workers count only once the job is due."""
    if not workers:
        return [Blocker("no_worker", "No worker is alive.")]
    lane = lane_of(job.target)
    knowing = [worker for worker in workers if lane in worker.lanes]
    if not knowing:
        return [Blocker("unknown_task", f"No live worker {ability(job.target)}.")]
    serving = [each for each in knowing if each.queues is None or job.queue in each.queues]
    if not serving:
        return [Blocker("no_worker_for_queue", f"No live worker serves queue {job.queue}.")]
    if is_due and all(worker.running >= worker.concurrency for worker in serving):
        return [Blocker("workers_busy", "All workers that could run it are full.")]
    return []


def ability(target: Target) -> str:
    """What a worker needs for the target, in words."""
    if isinstance(target, NotifyTarget):
        return f"has the channel {target.channel!r}"
    if isinstance(target, CommandTarget):
        return f"allows the program {target.program} (setting commands.allow)"
    return f"knows {lane_of(target)}"


def summary(error: str | None) -> str:
    """The last line of an error: a traceback ends with its message."""
    return (error or "").strip().rpartition("\n")[2]


def instant_text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def rate_blocker(code: str, what: str, rate: str) -> Blocker:
    return Blocker(code, f"{what} starts {rate} at most, and others may go first.")
