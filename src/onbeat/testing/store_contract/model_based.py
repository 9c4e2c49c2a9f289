"""Any history of claims, ends, rescues and interventions agrees with a small model."""

from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.outcome import Failed, Lost, Outcome, Released, Succeeded
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, NOW, SECOND, a_job, an_id
from onbeat.testing.store_contract.steps import a_settlement, claim_jobs


class Action(Enum):
    ENQUEUE = auto()
    CLAIM = auto()
    SUCCEED = auto()
    FAIL = auto()
    FAIL_FOR_GOOD = auto()
    RELEASE = auto()
    RESCUE = auto()
    CANCEL = auto()
    RETRY = auto()


class Step(NamedTuple):
    act: Action
    choice: int
    """The index of the job or lease that the step applies to."""


OUTCOMES: dict[Action, Outcome] = {
    Action.SUCCEED: Succeeded(),
    Action.FAIL: Failed("it broke"),
    Action.FAIL_FOR_GOOD: Failed("it broke", retryable=False),
    Action.RELEASE: Released(),
    Action.RESCUE: Lost("the worker died"),
}

STEPS = st.lists(
    st.builds(Step, st.sampled_from(Action), st.integers(0, 5)), min_size=1, max_size=40
)


class ModelState:
    """The state that follows from the store's answers so far."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.task = an_id()
        self.now: datetime = NOW
        self.jobs: list[JobId] = []
        self.leases: list[Job] = []
        self.valid: dict[JobId, Job] = {}
        self.tokens: dict[JobId, int] = {}
        self.ended: dict[JobId, Job] = {}

    async def take(self, step: Step) -> None:
        self.now += SECOND
        match step.act:
            case Action.ENQUEUE:
                await self.enqueue()
            case Action.CLAIM:
                await self.claim(step.choice + 1)
            case Action.CANCEL:
                await self.cancel(step)
            case Action.RETRY:
                await self.retry(step)
            case _:
                await self.settle(step)

    async def enqueue(self) -> None:
        job = a_job(self.task, due_at=self.now)
        await self.store.enqueue([job])
        self.jobs.append(job.id)

    async def claim(self, limit: int) -> None:
        lanes = frozenset({self.task})
        # Far enough ahead for every retry to be due.
        ahead = self.now + HOUR
        for job in await claim_jobs(self.store, now=ahead, limit=limit, lanes=lanes):
            assert job.id not in self.valid, "a job under a valid lease was given out again"
            assert job.id not in self.ended, "a job that had ended was given out again"
            assert job.token > self.tokens.get(job.id, 0), "a token did not rise"
            self.tokens[job.id] = job.token
            self.valid[job.id] = job
            self.leases.append(job)

    async def settle(self, step: Step) -> None:
        """Settle with any lease ever issued, also one lost long ago."""
        if not self.leases:
            return
        lease = self.leases[step.choice % len(self.leases)]
        is_valid = self.valid.get(lease.id) == lease
        settlement = a_settlement(lease, OUTCOMES[step.act], self.now)
        assert list(await self.store.settle([settlement])) == [is_valid]
        if is_valid:
            del self.valid[lease.id]

    async def cancel(self, step: Step) -> None:
        if self.jobs:
            await self.store.cancel([self.jobs[step.choice % len(self.jobs)]], "by hand", self.now)

    async def retry(self, step: Step) -> None:
        if not self.jobs:
            return
        id = self.jobs[step.choice % len(self.jobs)]
        await self.store.retry([id], self.now)
        if id in self.ended and self.ended[id].state is not JobState.SUCCEEDED:
            # A retry by hand makes the job live again.
            del self.ended[id]

    async def compare(self) -> None:
        """The store agrees with the model, and ended jobs do not change."""
        for id in self.jobs:
            job = await self.store.job(id)
            assert job is not None, "a job was lost"
            assert (job.state is JobState.RUNNING) == (id in self.valid)
            assert job.token == self.tokens.get(id, 0)
            if id in self.ended:
                assert job == self.ended[id], "a job ended twice"
            if job.state in FINAL_STATES:
                self.ended[id] = job


class HistoryContract:
    @settings(
        max_examples=60,
        deadline=None,
        # All examples share one store: each has its own task, and so lane. The test runs once for
        # each subclass of the contract, which differ only in their store.
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @given(steps=STEPS)
    async def test_no_history_gives_two_leases_or_two_ends(
        self, store: Store, steps: list[Step]
    ) -> None:
        seen = ModelState(store)
        await seen.enqueue()
        for step in steps:
            await seen.take(step)
            await seen.compare()
