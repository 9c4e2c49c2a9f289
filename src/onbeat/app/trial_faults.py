"""Faults of a trial: workers that die, and answers that are lost."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.outcome import Evidence, Failed, Lost, Outcome
from onbeat.model.target import lane_of
from onbeat.ports.store import Claimed, ClaimRequest, Settlement, Store, SucceededAttempt
from onbeat.rules.settlement import attempt_of, settle
from onbeat.stores.successes import settlement_of

DIED = Lost("the trial ended its worker", Evidence.ENDED)
TIMED_OUT = Failed("timed out: the trial lost the answer of the target")


class Mishap(StrEnum):
    """What happens to one attempt.

    CLAIM: its worker dies before the handler begins. RUN: it dies when the handler has returned and
    before the outcome is stored. SETTLE: it dies when the outcome is stored. REFUSED: the store
    refuses the outcome once. UNANSWERED: the store has it, and its answer is lost. TIMED_OUT: the
    target has done its work, and its answer is lost.
    """

    CLAIM = "claim"
    RUN = "run"
    SETTLE = "settle"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    TIMED_OUT = "timed out"


CRASHES = (Mishap.CLAIM, Mishap.RUN, Mishap.SETTLE)


class ArmedCrash(msgspec.Struct):
    """A crash that waits for an attempt (of `task`); it happens `times` times."""

    point: Mishap
    task: str | None
    times: int


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """The chances of one attempt. Raises `Invalid` unless each is from 0 to 1, and all in sum."""

    crashes: float = 0.0
    store_errors: float = 0.0
    lost_answers: float = 0.0
    target_timeouts: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise Invalid(f"{name} is a chance, from 0 to 1", field=name)
        if sum(getattr(self, name) for name in self.__struct_fields__) > 1:
            raise Invalid("the chances of one attempt are more than 1 in sum", field="crashes")

    def draw(self, generator: Random) -> Mishap | None:
        number = generator.random()
        for chance, mishaps in (
            (self.crashes, CRASHES),
            (self.store_errors, (Mishap.REFUSED,)),
            (self.lost_answers, (Mishap.UNANSWERED,)),
            (self.target_timeouts, (Mishap.TIMED_OUT,)),
        ):
            if number < chance:
                return mishaps[int(generator.random() * len(mishaps))]
            number -= chance
        return None


class TrialStore:
    """The store of a trial. With faults set, claims take one job, so that a crash harms one.

    All that is not about faults goes to `inner`.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.armed: list[ArmedCrash] = []
        self.rates: FaultRates | None = None
        self.generator = Random(0)  # noqa: S311  repeatable on purpose
        self.mishaps: dict[tuple[JobId, Token], Mishap] = {}
        self.lost: list[Job] = []
        self.happened: list[tuple[JobId, Mishap]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def has_faults(self) -> bool:
        return bool(self.armed) or self.rates is not None

    async def claim(self, request: ClaimRequest) -> Claimed:
        if not self.has_faults:
            return await self.inner.claim(request)
        claimed = await self.inner.claim(replace(request, limit=1))
        jobs = [job for job in claimed.jobs if not self.dies_early(job)]
        again_at = request.now if claimed.jobs else claimed.next_due_at
        return Claimed(jobs=jobs, next_due_at=again_at)

    def dies_early(self, job: Job) -> bool:
        mishap = self.mishap_of(job)
        if mishap is None:
            return False
        self.happened.append((job.id, mishap))
        if mishap is Mishap.CLAIM:
            self.lost.append(job)
            return True
        self.mishaps[job.id, job.token] = mishap
        return False

    def mishap_of(self, job: Job) -> Mishap | None:
        """The crash that waits for it, or what chance decides.

        Chance leaves a job its last attempt: one whose handler is right then succeeds.
        """
        for armed in self.armed:
            if armed.task in {None, lane_of(job.target)}:
                armed.times -= 1
                self.armed = [one for one in self.armed if one.times > 0]
                return armed.point
        if self.rates is None or job.lost + 1 >= job.retry.lost_max:
            return None
        is_last = job.attempt - job.lost >= job.retry.attempts_max
        mishap = self.rates.draw(self.generator)
        return None if is_last and mishap is Mishap.TIMED_OUT else mishap

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return [await self.settle_one(one) for one in settlements]

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        return await self.settle(list(map(settlement_of, successes)))

    async def settle_one(self, one: Settlement) -> bool:
        match self.mishaps.pop((one.attempt.job_id, one.attempt.token), None):
            case Mishap.RUN:
                job = await self.inner.job(one.attempt.job_id)
                self.lost += [] if job is None else [job]
                return False
            case Mishap.REFUSED:
                raise Unavailable("the trial refuses to store an outcome")
            case Mishap.UNANSWERED:
                await self.inner.settle([one])
                raise Unavailable("the trial lost the answer of the store")
            case Mishap.TIMED_OUT:
                return await self.settle_as(one.attempt.job_id, TIMED_OUT, one.attempt.finished_at)
            case _:
                (is_stored,) = await self.inner.settle([one])
                return is_stored

    async def settle_as(self, id: JobId, outcome: Outcome, now: datetime) -> bool:
        job = await self.inner.job(id)
        if job is None:
            return False
        ended = settle(job, outcome, now, self.generator.random())
        (is_stored,) = await self.inner.settle(
            [Settlement(job=ended, attempt=attempt_of(job, outcome, now))]
        )
        return is_stored

    async def rescue(self, now: datetime) -> int:
        """Take back the jobs of workers that died, as a rescuer does. Returns how many."""
        lost, self.lost = self.lost, []
        for job in lost:
            await self.settle_as(job.id, DIED, now)
        return len(lost)
