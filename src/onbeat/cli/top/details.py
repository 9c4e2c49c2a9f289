"""What Enter shows of a row, and what its keys change."""

from datetime import datetime, tzinfo
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.app.backend import Backend
from onbeat.cli.times import relative
from onbeat.cli.top.records import FailureLine, Picture, QueueLine, WorkerLine
from onbeat.cli.top.words import moment, one_line, trouble_lines
from onbeat.dashboard.formats import duration, number, shown
from onbeat.model.job import JobState
from onbeat.operations.tables.failures import FAILURE_REPLAY, FAILURE_SHOW
from onbeat.operations.tables.fleet import QUEUE_PAUSE, QUEUE_RESUME
from onbeat.operations.tables.jobs import JOB_LIST, JOB_SHOW, JOB_WHY
from onbeat.operations.tables.schedules import SCHEDULE_PREVIEW
from onbeat.wire.failures import FailureById, GroupReplayed, ReplayBody, ReplayFailures
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import JobById, ListJobs, PauseQueue, PreviewSchedule, QueueByName

FIRES: Final = 5


async def queue_details(backend: Backend, queue: QueueLine, now: datetime) -> str:
    """The queue, and why one of its jobs waits: the newest that is due, else the newest."""
    lines = [
        f"Queue {shown(queue.name)}, {'paused' if queue.paused else 'active'}",
        f"{number(queue.due)} due of {number(queue.waiting)} waiting, {number(queue.running)} run",
        "",
    ]
    waiting = ListJobs(queue=queue.name, state=JobState.WAITING, limit=1)
    due = replace(waiting, until=now)
    found = (await backend.call(JOB_LIST, due if queue.due else waiting)).jobs
    for job in found:
        why = await backend.call(JOB_WHY, JobById(job.id))
        lines += [f"{task_of(job)} {job.id} waits:", shown(why.explanation)]
    if not found:
        lines.append("No job waits in it.")
    return "\n".join(lines)


async def failure_details(backend: Backend, fault: str, now: datetime, zone: tzinfo | None) -> str:
    """The fault, and the whole error of one of its jobs."""
    one = await backend.call(FAILURE_SHOW, FailureById(fault))
    jobs = () if one.jobs is UNSET else one.jobs
    first = moment(one.first_at, now, zone)
    lines = [
        shown(one.title),
        f"in {shown(one.task)}, raised in {shown(one.place)}",
        f"{number(one.attempts)} attempts since {first}, the last {relative(one.last_at, now)}",
        f"{number(one.failed)} jobs failed for good, {number(one.waiting)} will be tried again",
        "",
    ]
    job = jobs[0].id if jobs else one.sample_job
    if job is not None:
        lines += [f"Job {job}:", await error_of(backend, job)]
    return "\n".join(lines)


async def error_of(backend: Backend, id: str) -> str:
    job = await backend.call(JOB_SHOW, JobById(id))
    return shown(job.error or "It has kept no error.")


def task_of(job: JobInfo) -> str:
    return shown(job.target.task) if isinstance(job.target.task, str) else "a callback or message"


def worker_details(worker: WorkerLine, now: datetime) -> str:
    heard = "" if worker.beat_at is None else f", heard {relative(worker.beat_at, now)}"
    lines = [
        f"Worker {shown(worker.name)}{heard}",
        f"Queues: {'all' if worker.queues is None else shown(', '.join(worker.queues))}",
        f"Tasks: {shown(', '.join(worker.tasks)) or 'not known here'}",
        "",
        f"It runs {number(worker.running)}, the longest first:",
    ]
    for job in worker.jobs:
        span = "" if job.started_at is None else f"{duration(max(now - job.started_at, now - now))}"
        lines.append(f"  {span:>12}  {shown(job.task)}  {job.id}, attempt {job.attempt}")
    return "\n".join(lines)


async def fire_details(backend: Backend, id: str, now: datetime, zone: tzinfo | None) -> str:
    """The rule in words, and the next occurrences."""
    preview = await backend.call(SCHEDULE_PREVIEW, PreviewSchedule(id=id, count=FIRES))
    fires = [f"  {moment(at, now, zone)}  {relative(at, now)}" for at in preview.occurrences]
    return "\n".join([shown(preview.description), *map(shown, preview.notes), "", *fires])


def trouble_details(picture: Picture, zone: tzinfo | None) -> str:
    lines = trouble_lines(picture.troubles, picture.at, zone)
    return "\n".join(line.text for line in lines) or "Nothing is wrong."


async def count_replay(backend: Backend, fault: str) -> GroupReplayed:
    """What a replay would retry; it changes nothing."""
    return await backend.call(FAILURE_REPLAY, ReplayFailures(fault, ReplayBody(dry_run=True)))


async def start_replay(backend: Backend, fault: str) -> GroupReplayed:
    return await backend.call(FAILURE_REPLAY, ReplayFailures(fault))


async def switch_queue(backend: Backend, queue: QueueLine) -> str:
    """Pause it, or resume it where it was paused; says what was done."""
    if queue.paused:
        state = await backend.call(QUEUE_RESUME, QueueByName(queue.name))
    else:
        state = await backend.call(QUEUE_PAUSE, PauseQueue(queue.name))
    return f"{state.name} is {'paused' if state.paused else 'resumed'}"


def replay_question(counted: GroupReplayed, failure: FailureLine) -> str:
    jobs = "1 failed job" if counted.done == 1 else f"{counted.done:,} failed jobs"
    newest = "the newest " if counted.more else ""
    skipped = f" {counted.skipped:,} cannot be retried." if counted.skipped else ""
    return f"Retry {newest}{jobs} of {one_line(failure.task)}: {one_line(failure.title)}?{skipped}"


def replayed_words(done: GroupReplayed) -> str:
    more = "; there are more" if done.more else ""
    return f"{done.done:,} retried, {done.skipped:,} skipped{more}"
