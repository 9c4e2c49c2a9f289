"""What is asked before the target of a claimed job runs: its windows, and its condition."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.credentials import NOT_SHOWN
from onbeat.model.errors import Invalid
from onbeat.model.event import Event
from onbeat.model.ids import JobId
from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed, Succeeded
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.ports.clock import Clock
from onbeat.ports.expressions import Expressions, Fault, ValueKind
from onbeat.ports.target import Run, Runners, RunWithJob, TargetRunner, UnleasedRun
from onbeat.rules.condition import (
    CLOSED,
    FAILED,
    NAMES,
    PREDICATES,
    answer_fact,
    facts_of,
    failed,
    is_to_be_judged,
    verdict_of,
)
from onbeat.rules.shortage import describe_error
from onbeat.rules.windows import opening_at_or_after

SENT_SECONDS_MAX: Final = 10.0  # the timed lease of the job is running


class JobReader(Protocol):
    async def jobs_by_id(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """See `onbeat.ports.store.Store.jobs_by_id`."""
        ...


class AskingRun(RunWithJob):
    """What a condition asks, within the attempt of its job.

    Its progress would be taken for that of the job, so it is not noted.
    """

    @property
    def is_question(self) -> bool:
        return True

    def note_progress(self, progress: Progress) -> None: ...


class StartCheck:
    """Decides whether the target of an attempt runs."""

    def __init__(
        self, runners: Runners, expressions: Expressions, clock: Clock, store: JobReader
    ) -> None:
        self.runners = runners
        self.expressions = expressions
        self.clock = clock
        self.store = store

    async def run(self, runner: TargetRunner, run: Run) -> Outcome:
        """The outcome of the target, or of what keeps it from running."""
        verdict = await self.judge(run)
        return await runner.run(run) if verdict is None else verdict

    async def judge_sent(self, job: Job, events: Sequence[Event] = ()) -> Outcome | None:
        """The same as `judge` for a job that is sent to a remote worker; takes seconds at most."""
        if job.condition is None and not job.window:
            return None
        try:
            async with asyncio.timeout(SENT_SECONDS_MAX):
                return await self.judge(UnleasedRun(job, events))
        except TimeoutError:
            return Failed(f"{FAILED}: no answer within {SENT_SECONDS_MAX:g} s")
        except Exception as error:  # noqa: BLE001  a target may raise anything
            return Failed(f"{FAILED}: {describe_error(error)}")

    async def judge(self, run: Run) -> Outcome | None:
        """The outcome of an attempt whose target must not run; None where it may.

        A window is asked at every start, a condition until it has held.
        """
        job, now = run.job, self.clock.now()
        opening = opening_at_or_after(job.window, now)
        if opening > now:
            return Snoozed(reason=CLOSED, unstarted=True, until=opening)
        if job.condition is None or not is_to_be_judged(job):
            return None
        return await self.judge_condition(run, job.condition)

    async def judge_condition(self, run: Run, condition: Condition) -> Outcome | None:
        if condition.predicate is not None:
            target = HandlerTarget(PREDICATES + condition.predicate)
            outcome = await self.ask(run, condition, target)
            if not isinstance(outcome, Succeeded):
                return outcome
            return verdict_of(condition, answer_fact(outcome.result, is_http=False))
        answer: object = None
        if condition.ask is not None:
            outcome = await self.ask(run, condition, condition.ask)
            if not isinstance(outcome, Succeeded):
                return outcome
            answer = answer_fact(outcome.result, is_http=isinstance(condition.ask, HttpTarget))
        after: Mapping[JobId, Job] = {}
        if run.job.after:
            after = await self.store.jobs_by_id(run.job.after)
        return self.evaluate(run.job, condition, answer, run.events, after)

    def evaluate(
        self,
        job: Job,
        condition: Condition,
        answer: object,
        events: Sequence[Event],
        after: Mapping[JobId, Job],
    ) -> Outcome | None:
        assert condition.text is not None, "a condition has a text or a predicate"
        try:
            expression = self.expressions.compile(
                condition.text, NAMES, "condition.if", ValueKind.TRUTH
            )
        except Invalid as error:
            return failed(condition, str(error))
        facts = facts_of(job, self.clock.now(), answer=answer, events=events, after=after)
        value = expression(facts)
        if isinstance(value, Fault):
            return failed(condition, value.text)
        return verdict_of(condition, value)

    async def ask(
        self, run: Run, condition: Condition, target: HandlerTarget | HttpTarget
    ) -> Outcome:
        """The outcome of the question; a failure is one of the condition."""
        runner = self.runners.get(type(target))
        if runner is None:
            return failed(condition, "this worker runs no such target")
        job = replace(run.job, target=target, condition=None)
        outcome = await runner.run(AskingRun(run, job))
        match outcome:
            case Failed(error=error):
                shown = NOT_SHOWN if job.sensitive else error
                return replace(outcome, error=failed(condition, f"ask: {shown}").error)
            case Snoozed() | Cancelled():
                return replace(outcome, unstarted=True)
            case _:
                return outcome
