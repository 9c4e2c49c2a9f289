"""A state machine of store calls, alone and at once, against the oracle.

One machine serves all stores. Jobs, keys, queues and schedules are few, so that calls meet.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from itertools import groupby, permutations
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from model_checks import calls
from model_checks.oracle import Schedule as OracleSchedule
from model_checks.oracle import World
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Cancelled, Failed, Lost, Outcome, Released, Snoozed, Succeeded
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import NO_LIMITS
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.store import Store
from onbeat.testing.build import DAY, HOUR, NOW, SECOND, a_job, a_plan, a_schedule, an_occurrence

LANES = frozenset({"work"})
QUEUES = ("red", "blue")
KEYS = ("one", "two")
WORKERS = (WorkerId("worker-a"), WorkerId("worker-b"))
OUTCOMES: tuple[Outcome, ...] = (
    Succeeded(),
    Failed("it broke"),
    Failed("it broke", retryable=False),
    Released(),
    Snoozed(2 * SECOND),
    Cancelled("by its handler"),
    Lost("its worker died"),
)


class Verb(Enum):
    ENQUEUE = auto()
    SEND_AGAIN = auto()
    CLAIM = auto()
    SETTLE = auto()
    CANCEL = auto()
    RETRY = auto()
    PAUSE_QUEUE = auto()
    LIMIT_QUEUE = auto()
    PLAN = auto()
    EDIT = auto()
    DELETE = auto()
    CANCEL_OVERDUE = auto()
    BEAT = auto()
    ABANDONED = auto()
    FORGET = auto()
    PRUNE = auto()


OFTEN = (Verb.ENQUEUE, Verb.CLAIM, Verb.CLAIM, Verb.SETTLE, Verb.SETTLE, Verb.CANCEL, Verb.RETRY)


@dataclass(frozen=True, slots=True)
class Act:
    """A verb, and numbers that choose what it is done to."""

    verb: Verb
    first: int
    second: int
    is_set: bool


ACTS = st.builds(
    Act,
    st.sampled_from([*OFTEN, *Verb]),
    st.integers(0, 7),
    st.integers(0, 7),
    st.booleans(),
)


class Binder:
    """Makes calls of acts, by what was sent and given out so far."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self.sent: list[Job] = []
        self.claimed: list[Job] = []
        self.schedules: list[Schedule] = []
        self.planned: list[Job] = []
        self.plans: list[Plan] = []

    def bind(self, act: Act) -> calls.Call:
        return BINDINGS[act.verb](self, act)

    def pick(self, jobs: Sequence[Job], choice: int) -> Job:
        """One of the latest, so that calls meet; a new one where there are none."""
        return (
            jobs[-1 - choice % len(jobs)] if jobs else self.new_job(Act(Verb.ENQUEUE, 0, 0, False))
        )

    def new_job(self, act: Act) -> Job:
        latest = [job.id for job in self.sent[-3:]]
        job = a_job(
            created_at=self.now,
            due_at=self.now + (act.second % 3 - 1) * SECOND,
            queue=QUEUES[act.first % 2],
            priority=act.second % 2,
            unique=KEYS[act.first // 2 % 2] if act.is_set else None,
            unique_for=3 * SECOND if act.is_set and act.first > 3 else None,
            after=tuple(latest[: act.second // 3]),
        )
        self.sent.append(job)
        return job

    def enqueue(self, act: Act) -> calls.Call:
        jobs = [self.new_job(act)]
        if act.first == 7:
            jobs.append(self.new_job(replace_act(act, second=act.second ^ 1)))
        return calls.Enqueue(tuple(jobs))

    def send_again(self, act: Act) -> calls.Call:
        return calls.Enqueue((self.pick(self.sent, act.first),))

    def claim(self, act: Act) -> calls.Call:
        worker = WORKERS[act.first % 2]
        return calls.Claim(worker, self.now, 1 + act.second % 4, LANES, self.claimed)

    def settle(self, act: Act) -> calls.Call:
        lease = self.pick([job for job in self.claimed if job.worker], act.first)
        if lease.worker is None:
            return self.claim(act)
        return calls.Settle(lease, OUTCOMES[act.second % len(OUTCOMES)], self.now)

    def cancel(self, act: Act) -> calls.Call:
        return calls.Cancel(self.any_job(act), "by hand", self.now)

    def retry(self, act: Act) -> calls.Call:
        return calls.Retry(self.any_job(act), self.now, act.is_set)

    def any_job(self, act: Act) -> JobId:
        return self.pick(self.planned if act.second == 7 else self.sent, act.first).id

    def pause_queue(self, act: Act) -> calls.Call:
        return calls.PauseQueue(QUEUES[act.first % 2], act.is_set)

    def limit_queue(self, act: Act) -> calls.Call:
        return calls.LimitQueue(QUEUES[act.first % 2], 1 + act.second % 2 if act.is_set else None)

    def a_schedule(self, act: Act) -> int:
        return act.first % len(self.schedules)

    def plan_of(self, schedule: Schedule, act: Act, first: int) -> Plan:
        instants = [self.now + (first + number) * SECOND for number in range(1 + act.second % 3)]
        jobs = tuple(
            an_occurrence(
                schedule, at, created_at=self.now, start_by=at + SECOND if act.is_set else None
            )
            for at in instants
        )
        self.planned += jobs
        last = instants[-1] + SECOND
        skips = (Skip(last, last, "misfire"),) if act.second > 3 else ()
        self.plans.append(a_plan(schedule, *jobs, skips=skips, planned_through=last))
        return self.plans[-1]

    def plan(self, act: Act) -> calls.Call:
        if self.plans and act.first > 5:
            return calls.Plan(self.plans[-1])
        return calls.Plan(
            self.plan_of(self.schedules[self.a_schedule(act)], act, act.first % 3 - 1)
        )

    def edit(self, act: Act) -> calls.Call:
        """Made from what was read last: one of two at once comes too late."""
        place = self.a_schedule(act)
        status = ScheduleStatus.PAUSED if act.second % 2 else ScheduleStatus.ACTIVE
        old = self.schedules[place]
        new = replace(old, version=old.version + 1, status=status, updated_at=self.now)
        if act.first < 6:
            self.schedules[place] = new
        plan = self.plan_of(new, act, 1) if act.is_set else None
        return calls.Edit(new, status is ScheduleStatus.PAUSED, plan, self.now)

    def delete(self, act: Act) -> calls.Call:
        return calls.Delete(self.schedules[self.a_schedule(act)].id, self.now)

    def cancel_overdue(self, act: Act) -> calls.Call:
        chosen = [self.pick(self.planned, act.first), self.pick(self.sent, act.second)]
        return calls.CancelOverdue(tuple(dict.fromkeys(job.id for job in chosen)), self.now)

    def beat(self, act: Act) -> calls.Call:
        return calls.Beat(WORKERS[act.first % 2])

    def abandoned(self, act: Act) -> calls.Call:
        return calls.Abandoned(frozenset(WORKERS[: act.first % 3]), self.now)

    def forget(self, act: Act) -> calls.Call:
        return calls.Forget(WORKERS[act.first % 2])

    def prune(self, act: Act) -> calls.Call:
        return calls.Prune(self.now - act.first % 4 * SECOND)


def replace_act(act: Act, *, second: int) -> Act:
    return Act(act.verb, act.first, second, act.is_set)


BINDINGS: dict[Verb, Callable[[Binder, Act], calls.Call]] = {
    verb: getattr(Binder, verb.name.lower()) for verb in Verb
}


Step = tuple[calls.Call, Any]
"""A call, or a part of one, and its answer."""


class StoreMachine(RuleBasedStateMachine):
    """Each example leaves the stores empty. A subclass of it names the stores."""

    runner: ClassVar[asyncio.Runner]
    stores: ClassVar[Sequence[Store]]
    """The same store by connections of their own."""
    claims_by_priority: ClassVar[bool] = False
    """Whether a claim is one transaction for each priority, so that calls beside it see a part."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds = [World()]
        self.binder = Binder(NOW)

    @initialize()
    def add_schedules(self) -> None:
        self.binder.schedules = [a_schedule(), a_schedule()]
        self.runner.run(self.begin())
        for schedule in self.binder.schedules:
            self.worlds[0].schedules[schedule.id] = OracleSchedule(through=NOW)

    async def begin(self) -> None:
        await clear(self.stores[0])
        for schedule in self.binder.schedules:
            await self.stores[0].add_schedule(schedule, a_plan(schedule))

    @rule(act=ACTS)
    def call(self, act: Act) -> None:
        self.run([act])

    @rule(acts=st.lists(ACTS, min_size=2, max_size=3))
    def call_at_once(self, acts: list[Act]) -> None:
        self.run(acts)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.binder.now += seconds * SECOND

    def run(self, acts: Sequence[Act]) -> None:
        made = [self.binder.bind(act) for act in acts]
        answers, seen = self.runner.run(self.ask(made))
        for call, answer in zip(made, answers, strict=True):
            note(f"{calls.short(call)} -> {answer}")
        steps = list(zip(made, answers, strict=True))
        parts = [[step] if len(steps) == 1 else self.parts(*step) for step in steps]
        possible = [after for world in self.worlds for after in orders(world, parts)]
        assert possible, f"no order of these calls gives these answers: {steps_text(steps)}"
        for world in possible:
            world.adopt(seen["jobs"])
        self.worlds = [world for world in possible if world.seen() == seen][:1]
        assert self.worlds, (
            f"the store shows {difference(seen, possible[0].seen())} after {steps_text(steps)}"
        )

    def parts(self, call: calls.Call, answer: Any) -> Sequence[Step]:
        """The steps of a call that others may come between, in their order."""
        if not (self.claims_by_priority and isinstance(call, calls.Claim) and answer):
            return [(call, answer)]
        priorities = {str(job.id): job.priority for job in call.claimed}
        by_priority = groupby(answer, key=lambda given: priorities[given[0]])
        return [(call, list(given)) for _, given in by_priority]

    async def ask(self, made: Sequence[calls.Call]) -> tuple[list[Any], dict[str, Any]]:
        stores = zip(made, self.stores, strict=False)
        answers = await asyncio.gather(*(call.run(store) for call, store in stores))
        return answers, await shown(self.stores[0], self.binder)


def steps_text(steps: Sequence[Step]) -> str:
    return "; ".join(f"{calls.short(call)} -> {answer}" for call, answer in steps)


def orders(world: World, parts: Sequence[Sequence[Step]]) -> list[World]:
    """The states after every order of the calls in which all answers are right.

    `parts`: the steps of each call, which keep their order.
    """
    alone = len(parts) == 1
    found: list[World] = []
    turns = [place for place, steps in enumerate(parts) for _ in steps]
    for order in sorted(set(permutations(turns))):
        after, left = world.branch(), [iter(steps) for steps in parts]
        if all(after.accepts(*next(left[place]), alone=alone) for place in order):
            found.append(after)
    return found


def difference(seen: dict[str, Any], wanted: dict[str, Any]) -> str:
    parts = [
        f"{key}: {values.get(key)} instead of {wanted[part].get(key)}"
        for part, values in seen.items()
        for key in sorted(values.keys() | wanted[part].keys())
        if values.get(key) != wanted[part].get(key)
    ]
    return "; ".join(parts)


async def shown(store: Store, binder: Binder) -> dict[str, Any]:
    """What the store shows, in the form of `World.seen`."""
    exports = await store.export_jobs(None, 1_000)
    schedules, ledgers = {}, {}
    for known in binder.schedules:
        schedule = await store.schedule(known.id)
        if schedule is not None:
            paused = schedule.status is ScheduleStatus.PAUSED
            schedules[schedule.id] = (schedule.version, paused, schedule.planned_through)
        rows = await store.dispositions(known.id, NOW - DAY, NOW + 30 * DAY)
        if rows:
            ledgers[known.id] = {row.first: row.job_id for row in rows}
    jobs = {
        job.id: (
            job.state.value,
            int(job.token),
            (job.attempt, job.lost, job.released),
            job.worker if job.state.value == "running" else None,
            job.due_at,
            job.blocked_by,
            job.cancel_reason,
            job.finished_at if job.is_final else None,
            job.cause_id,
            job.start_by,
            tuple((int(one.token), one.outcome.value, one.finished_at) for one in attempts),
        )
        for job, attempts in ((one.job, one.attempts) for one in exports)
    }
    return {"jobs": jobs, "schedules": schedules, "ledgers": ledgers}


async def clear(store: Store) -> None:
    """Leave nothing of the example before, by verbs of the store."""
    far = NOW + 90 * DAY
    for schedule in (await store.schedules(ScheduleFilter(limit=100))).items:
        await store.delete_schedule(schedule.id, far)
    while jobs := (await store.jobs(JobFilter(limit=100))).items:
        await store.cancel([job.id for job in jobs if not job.is_final], "cleared", far)
        for job in (await store.jobs(JobFilter(limit=100))).items:
            if not job.is_final:
                await calls.Settle(job, Cancelled("cleared"), far).run(store)
        await store.prune(finished_before=far + HOUR, failed_before=far + HOUR, limit=1_000)
    await store.prune_held_keys(far + HOUR, 100)
    await store.forget_workers(WORKERS)
    for queue in QUEUES:
        await store.pause_queue(queue, paused=False)
        await store.limit_queue(queue, NO_LIMITS)
