"""Successes: `succeed` writes what `settle` would, for jobs of every kind, in one batch."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Released, Succeeded
from onbeat.ports.store import Store, SucceededAttempt
from onbeat.testing.build import HOUR, NOW, SECOND, a_job
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    a_settlement,
    claim_jobs,
    end,
    ids_of,
    run_job,
    stored_job,
)

LATER = NOW + SECOND
RESULT = msgspec.Raw(b'{"answer":42}')

KINDS: dict[str, Callable[[str], Job]] = {
    "plain": lambda _name: a_job(),
    "with a unique key": lambda name: a_job(unique=name),
    "whose key is held": lambda name: a_job(unique=name, unique_for=HOUR),
    "sensitive": lambda _name: a_job(sensitive=True, labels={"a": "b"}),
    "late": lambda _name: a_job(due_at=NOW - HOUR),
    "of another queue": lambda _name: a_job(queue="other", priority=3),
    "in a flow": lambda _name: a_job(flow=a_job().id),
}


def a_success(job: Job, result: msgspec.Raw | None = None) -> SucceededAttempt:
    return SucceededAttempt(job, LATER, result)


def without_names(job: Job) -> Job:
    """The job without what two jobs cannot share."""
    return replace(job, id=JobId(""), flow=None, unique=None, schedule_id=ScheduleId(""))


class SuccessContract:
    async def test_successes_are_stored_as_their_settlements(self, store: Store) -> None:
        jobs = {(kind, way): make(way) for kind, make in KINDS.items() for way in ("a", "b")}
        jobs = {key: replace(job, unique=job.unique and f"{key}") for key, job in jobs.items()}
        await store.enqueue(list(jobs.values()))
        running = {job.id: job for job in await claim_jobs(store)}
        await store.succeed([a_success(running[jobs[kind, "a"].id], RESULT) for kind in KINDS])
        for kind in KINDS:
            await end(store, running[jobs[kind, "b"].id], Succeeded(RESULT), LATER)
            one, other = [await stored_job(store, jobs[kind, way]) for way in ("a", "b")]
            assert one.state is JobState.SUCCEEDED
            assert without_names(one) == without_names(other), kind
            (attempt,) = await store.attempts(one.id)
            (like,) = await store.attempts(other.id)
            assert replace(attempt, job_id=like.job_id) == like, kind

    async def test_a_success_after_other_attempts_is_stored_as_its_settlement(
        self, store: Store
    ) -> None:
        one, other = a_job(retry=IN_A_MINUTE), a_job(retry=IN_A_MINUTE)
        for job in (one, other):
            await end(store, await run_job(store, job), PASSING_FAILURE)
        for job in await claim_jobs(store, now=NOW + HOUR):
            await end(store, job, Released(), NOW + HOUR)
        ways = {job.id: job for job in await claim_jobs(store, now=NOW + HOUR)}
        assert list(await store.succeed([a_success(ways[one.id])])) == [True]
        await end(store, ways[other.id], Succeeded(), LATER)
        assert without_names(await stored_job(store, one)) == without_names(
            await stored_job(store, other)
        )
        assert len(await store.attempts(one.id)) == len(await store.attempts(other.id)) == 3

    async def test_a_success_is_stored_once_however_often_it_is_told(self, store: Store) -> None:
        success = a_success(await run_job(store, a_job()))
        assert list(await store.succeed([success, success])) == [True, True]
        assert list(await store.succeed([success])) == [True]
        assert len(await store.attempts(success.job.id)) == 1

    async def test_the_progress_that_was_noted_last_stands_at_the_end(self, store: Store) -> None:
        quick, slow, failed = a_job(), a_job(), a_job()
        running = {job.id: await run_job(store, job) for job in (quick, slow, failed)}
        notes = [(job.id, job.token, Progress(7, 8)) for job in running.values()]
        assert list(await store.note_progress(notes)) == [True] * 3
        await store.succeed([a_success(running[quick.id])])
        await end(store, running[slow.id], Succeeded())
        await end(store, running[failed.id], FAILURE)
        for job in (quick, slow, failed):
            assert (await stored_job(store, job)).progress == Progress(7, 8)

    @pytest.mark.parametrize("change", ["token", "worker"])
    async def test_a_success_under_a_lost_lease_writes_nothing(
        self, store: Store, change: str
    ) -> None:
        lost, kept = a_job(), a_job()
        await store.enqueue([lost, kept])
        by_id = {job.id: job for job in await claim_jobs(store)}
        value = Token(7) if change == "token" else "somebody else"
        stale = a_success(replace(by_id[lost.id], **{change: value}))
        assert list(await store.succeed([stale, a_success(by_id[kept.id])])) == [False, True]
        assert await stored_job(store, lost) == by_id[lost.id]
        assert (await stored_job(store, kept)).state is JobState.SUCCEEDED

    async def test_a_success_beside_another_outcome_of_its_attempt_is_refused(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        await store.settle([a_settlement(job, Released())])
        assert list(await store.succeed([a_success(job)])) == [False]

    async def test_a_success_frees_the_jobs_after_it(self, store: Store) -> None:
        first = a_job()
        dependent = a_job(after=(first.id,))
        await store.enqueue([first, dependent])
        (running,) = await claim_jobs(store)
        await store.succeed([a_success(running)])
        assert ids_of(await claim_jobs(store)) == [dependent.id]

    async def test_a_success_holds_its_key(self, store: Store) -> None:
        job = await run_job(store, a_job(unique="key", unique_for=HOUR))
        await store.succeed([a_success(job)])
        (again,) = await store.enqueue([a_job(unique="key", created_at=LATER)])
        assert (again.created, again.id) == (False, job.id)

    async def test_no_success_is_none(self, store: Store) -> None:
        assert list(await store.succeed([])) == []
