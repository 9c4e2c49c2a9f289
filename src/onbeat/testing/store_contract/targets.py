"""Replacement of stored targets."""

import msgspec
import pytest

from onbeat.model.job import Job
from onbeat.model.schedule import Schedule
from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.ports.access import TargetChange
from onbeat.ports.store import Store
from onbeat.testing.build import a_job, a_schedule, an_id, an_occurrence
from onbeat.testing.store_contract.steps import add_planned, claim_jobs, end, run_job, stored_job

KINDS: tuple[tuple[Target, Target], ...] = (
    (
        HandlerTarget("work", msgspec.Raw(b"[1]"), msgspec.Raw(b'{"a":1}')),
        HandlerTarget("work", msgspec.Raw(b'"encrypted"')),
    ),
    (
        HttpTarget("https://example.org/?token=a", headers={"X-Token": "a"}, secret=("a", "b")),
        HttpTarget("https://example.org/?token=b", headers={"X-Token": "b"}, secret="c"),  # noqa: S106  no secret
    ),
    (
        MessageTarget("bus", "q", msgspec.Raw(b"1"), {"token": "a"}),
        MessageTarget("bus", "q", msgspec.Raw(b"1"), {"token": "größe"}),
    ),
    (
        NotifyTarget(
            "mail", "a@example.org", "Größe", "{{ data.a }}", data=msgspec.Raw(b'{"a":1}')
        ),
        NotifyTarget("mail", "a@example.org", template="size"),
    ),
    (
        CommandTarget(("/bin/backup", "--all", "Größe"), {"TOKEN": "a"}, "/srv", "in"),
        CommandTarget(("/bin/backup", "--all", "Größe"), {"TOKEN": "größe"}, "/srv", "in"),
    ),
)


def change(of: Job | Schedule, after: Target) -> TargetChange:
    return TargetChange(of.id, of.target, after)


class TargetContract:
    @pytest.mark.parametrize(
        ("before", "after"), KINDS, ids=["task", "http", "message", "notify", "command"]
    )
    async def test_the_target_of_a_job_is_replaced_and_nothing_else(
        self, store: Store, before: Target, after: Target
    ) -> None:
        job = a_job(target=before, labels={"a": "b"}, group="g")
        await store.enqueue([job])
        kept = await stored_job(store, job)
        assert await store.replace_job_targets([change(job, after)]) == 1
        assert await stored_job(store, job) == msgspec.structs.replace(kept, target=after)

    async def test_the_targets_of_running_and_ended_jobs_are_replaced(self, store: Store) -> None:
        before, after = KINDS[0]
        ended = await end(store, await run_job(store, a_job(target=before)))
        job = await run_job(store, a_job(target=before))
        changes = [change(one, after) for one in (ended, job)]
        assert await store.replace_job_targets(changes) == 2
        assert (await stored_job(store, ended)).target == after
        assert (await stored_job(store, job)).target == after
        assert (await end(store, job)).finished_at is not None

    async def test_a_waiting_job_runs_with_its_new_target(self, store: Store) -> None:
        before, after = KINDS[0]
        job = a_job(target=before)
        await store.enqueue([job])
        await store.replace_job_targets([change(job, after)])
        (result,) = await claim_jobs(store)
        assert result.target == after

    async def test_a_target_that_changed_meanwhile_stays(self, store: Store) -> None:
        before, after = KINDS[0]
        job, other = a_job(target=before), a_job(target=before)
        await store.enqueue([job, other])
        changes = [TargetChange(job.id, after, before), change(other, after)]
        assert await store.replace_job_targets(changes) == 1
        assert (await stored_job(store, job)).target == before
        assert (await stored_job(store, other)).target == after

    async def test_what_is_not_there_is_passed_over(self, store: Store) -> None:
        before, after = KINDS[0]
        changes = [TargetChange(an_id(), before, after)]
        assert await store.replace_job_targets(changes) == 0
        assert await store.replace_schedule_targets(changes) == 0

    async def test_the_target_of_a_schedule_is_replaced_and_its_jobs_stay(
        self, store: Store
    ) -> None:
        before, after = KINDS[1]
        schedule = a_schedule(target=before)
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        kept = await store.schedule(schedule.id)
        assert kept is not None
        assert await store.replace_schedule_targets([change(kept, after)]) == 1
        stored = await store.schedule(schedule.id)
        assert stored == msgspec.structs.replace(kept, target=after)
        assert (await stored_job(store, job)).target == before
