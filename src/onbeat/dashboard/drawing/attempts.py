"""The attempts of a job on a bar of time, as numbers for a drawing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.dashboard.formats import duration
from onbeat.model.attempt import OutcomeName
from onbeat.model.job import JobState
from onbeat.wire.jobs import AttemptAnswer, JobInfo

SHOWN_MAX: Final = 20
"""The newest attempts; the table has all."""
WIDTH_MIN: Final = 0.6
"""In percent, so that a short attempt is still seen."""
MARKS: Final = {OutcomeName.SUCCEEDED: "ok", OutcomeName.CANCELLED: "wait"}


class AttemptBar(msgspec.Struct, frozen=True, kw_only=True):
    """One span: `x` and `width` in percent of the whole, `mark` its colour, and it in words."""

    x: float
    width: float
    mark: str
    words: str
    is_wait: bool = False


def attempt_bars(
    job: JobInfo, attempts: Sequence[AttemptAnswer], now: datetime
) -> Sequence[AttemptBar]:
    """Waits and attempts in order of time, up to now; then the next attempt, if one is planned."""
    spans = list(spans_of(job, attempts[-SHOWN_MAX:], now))
    if not spans:
        return ()
    first, last = spans[0][0], max(end for _, end, *_ in spans)
    whole = max(last - first, timedelta(milliseconds=1))
    return [
        AttemptBar(
            x=round(100 * ((start - first) / whole), 2),
            width=round(max(WIDTH_MIN, 100 * ((end - start) / whole)), 2),
            mark=mark,
            words=f"{word} {duration(end - start)}" if mark != "plan" else word,
            is_wait=mark in {"wait-2", "plan"},
        )
        for start, end, mark, word in spans
    ]


def spans_of(
    job: JobInfo, attempts: Sequence[AttemptAnswer], now: datetime
) -> Sequence[tuple[datetime, datetime, str, str]]:
    """Start, end, colour and words of each span."""
    spans: list[tuple[datetime, datetime, str, str]] = []
    before = job.created_at if len(attempts) < SHOWN_MAX else None
    for one in attempts:
        if before is not None and one.started > before:
            spans.append((before, one.started, "wait-2", "waited"))
        end = one.finished or max(now, one.started)
        mark, word = (
            ("run", "runs since")
            if not one.outcome
            else (MARKS.get(one.outcome, "fail"), str(one.outcome))
        )
        spans.append((one.started, end, mark, f"attempt {one.number}: {word}"))
        before = end
    if job.state is JobState.WAITING:
        start = before or job.created_at
        spans.append((start, max(now, start), "wait-2", "waits"))
        if job.run_at > now:
            spans.append((now, job.run_at, "plan", f"attempt {job.attempt + 1} is planned"))
    return spans
