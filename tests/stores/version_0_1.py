"""What a store that version 0.1.0 left behind knows and does, whatever the database.

The fixtures hold the same: jobs that wait, run and have ended, schedules, limited and paused queues,
a worker and a dead letter. Those of the servers were made from the one of SQLite by `onbeat copy`
of 0.1.0, and two jobs were claimed then.
"""

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import ScheduleStatus
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW
from onbeat.testing.store_contract.steps import a_request, a_settlement

RELEASE_SCHEMA = 2


def job_id(number: int) -> JobId:
    return JobId(f"00000000-0000-7000-8000-{number:012d}")


async def job_of(store: Store, number: int) -> Job:
    job = await store.job(job_id(number))
    assert job is not None
    return job


async def check_change_is_known(store: Store, newest: int) -> None:
    """Opening it tells the schema of 0.1.0, and opening it again that nothing was to be done."""
    (change,) = store.schema_changes
    assert (change.url, change.before, change.after) == (store.url, RELEASE_SCHEMA, newest)
    assert change.was_needed
    await store.close()
    await store.open()
    (change,) = store.schema_changes
    assert (change.before, change.after, change.was_needed) == (newest, newest, False)


async def check_jobs_go_on(store: Store) -> None:
    """A running job ends, waiting ones are claimed in their order, dependents come after it."""
    assert list(await store.settle([a_settlement(await job_of(store, 5))])) == [True]
    answer = await store.claim(a_request(now=NOW + MINUTE))
    assert [job.id for job in answer.jobs] == [job_id(9), job_id(4)]
    first = await store.claim(a_request(now=NOW + HOUR, limit=1))
    assert [job.id for job in first.jobs] == [job_id(11)]
    await store.settle([a_settlement(first.jobs[0], now=NOW + HOUR)])
    freed = await store.claim(a_request(now=NOW + HOUR))
    assert [job.id for job in freed.jobs] == [job_id(12), job_id(13), job_id(14)]


async def check_history_is_there(store: Store) -> None:
    states = [(await job_of(store, number)).state for number in (1, 2, 3)]
    assert states == [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED]
    assert [attempt.outcome for attempt in await store.attempts(job_id(4))] == ["failed"]
    transitions = await store.transitions(job_id(3))
    assert [transition.cause for transition in transitions] == ["by hand"]
    report = await store.schedule_by_key("report")
    assert report is not None
    assert [schedule.id for schedule in await store.due_schedules(NOW, 9)] == [report.id]
    assert (await store.stats(NOW)).schedules[ScheduleStatus.PAUSED] == 1
    assert {queue.name: (queue.paused, queue.limits.fair) for queue in await store.queues(NOW)} == {
        "default": (False, False),
        "slow": (False, True),
        "still": (True, False),
    }
    assert [letter.body for letter in await store.dead_letters(None, 9)] == [b"not JSON"]
    assert [worker.id for worker in await store.workers()] == ["worker-1"]
