"""The log lines of jobs."""

from collections.abc import Sequence
from itertools import islice

from onbeat.model.ids import JobId
from onbeat.model.log_line import JobLogLine, LineKey
from onbeat.stores.memory.tables import Tables


def add_log_lines(tables: Tables, lines: Sequence[JobLogLine]) -> int:
    added = 0
    for line in lines:
        if line.job_id in tables.jobs:
            kept = tables.ends.lines.setdefault(line.job_id, {})
            added += line.number not in kept
            kept.setdefault(line.number, line)
    return added


def log_lines(
    tables: Tables, job: JobId, after: int, limit: int, attempt: int | None
) -> Sequence[JobLogLine]:
    lines = tables.ends.lines.get(job, {})
    chosen = (lines[number] for number in sorted(lines) if number > after)
    return list(islice((one for one in chosen if attempt in {None, one.attempt}), limit))


def export_log_lines(tables: Tables, after: LineKey | None, limit: int) -> Sequence[JobLogLine]:
    keys = ((job, number) for job, lines in tables.ends.lines.items() for number in lines)
    chosen = sorted(key for key in keys if after is None or key > after)
    return [tables.ends.lines[job][number] for job, number in chosen[:limit]]
