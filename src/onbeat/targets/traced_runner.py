"""Runs attempts inside spans."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from onbeat.model.outcome import Outcome
from onbeat.ports.clock import Clock
from onbeat.ports.target import HandedOver, Run, TargetRunner
from onbeat.ports.tracing import Tracing


class TracedRunner:
    """Implements `onbeat.ports.target.TargetRunner` around another runner.

    It is only there where something makes spans, so other programs do not pay for it.
    """

    def __init__(self, runner: TargetRunner, tracing: Tracing, clock: Clock) -> None:
        self._runner = runner
        self._tracing = tracing
        self._clock = clock

    async def open(self) -> None:
        await self._runner.open()

    async def close(self) -> None:
        await self._runner.close()

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]:
        # The question of a condition is asked before the attempt begins.
        return self._runner.run(run) if run.is_question else self._run_in_span(run)

    async def _run_in_span(self, run: Run) -> Outcome:
        with self._tracing.attempt(run.job, self._clock.now() - run.job.due_at) as span:
            try:
                outcome = await self._runner.run(run)
            except HandedOver as later:
                handed_over = later
            except BaseException:
                if run.stop_reason is not None:
                    span.stop(timed_out=self._is_past(run.deadline))
                raise
            else:
                span.end_with(outcome)
                return outcome
        # Raised outside of the span, which would count it as an error.
        raise handed_over

    def _is_past(self, deadline: datetime | None) -> bool:
        return deadline is not None and self._clock.now() >= deadline
