"""The log lines of jobs."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from onbeat.model.job import Job
from onbeat.model.limits import LOG_FIELDS_BYTES_MAX, LOG_LINE_BYTES_MAX
from onbeat.model.log_line import JobLogLine, LineKey, line_number
from onbeat.ports.store import Store
from onbeat.testing.build import DAY, NOW, SECOND, a_job
from onbeat.testing.store_contract.steps import FAILURE, run_and_end, run_job


def a_line(job: Job, number: int = 1, **fields: Any) -> JobLogLine:
    line = JobLogLine(
        job_id=job.id,
        number=number,
        attempt=1,
        at=NOW,
        level="info",
        logger="shop.mail",
        text=f"line {number}",
    )
    return replace(line, **fields)


async def all_lines(store: Store) -> list[JobLogLine]:
    """Read in pages of two."""
    result: list[JobLogLine] = []
    after: LineKey | None = None
    while rows := await store.export_log_lines(after, 2):
        assert len(rows) <= 2
        result += rows
        after = rows[-1].job_id, rows[-1].number
    return result


def numbers(lines: Sequence[JobLogLine]) -> list[int]:
    return [line.number for line in lines]


class JobLogContract:
    async def test_lines_come_back_as_they_were(self, store: Store) -> None:
        job = await run_job(store, a_job())
        whole = a_line(
            job,
            line_number(job.token, 7),
            attempt=3,
            at=NOW + SECOND / 1_000_000,
            text="\U0001f600 \"'\\ %s {} \n" + "x" * LOG_LINE_BYTES_MAX,
            fields='{"a":"' + "\u00e4" * (LOG_FIELDS_BYTES_MAX // 2) + '"}',
        )
        bare = a_line(job, whole.number + 1, text="")
        assert await store.add_log_lines([bare, whole]) == 2
        assert list(await store.log_lines(job.id, 0, 10)) == [whole, bare]

    async def test_lines_are_read_in_pages_and_by_attempt(self, store: Store) -> None:
        job, other = await run_job(store, a_job()), await run_job(store, a_job())
        first = [a_line(job, number) for number in (1, 2, 3)]
        second = [a_line(job, number, attempt=2) for number in (1_001, 1_002)]
        await store.add_log_lines([*second, a_line(other), *first])
        assert numbers(await store.log_lines(job.id, 0, 2)) == [1, 2]
        assert numbers(await store.log_lines(job.id, 2, 10)) == [3, 1_001, 1_002]
        assert numbers(await store.log_lines(job.id, 0, 10, 2)) == [1_001, 1_002]
        assert numbers(await store.log_lines(job.id, 1_001, 10, 2)) == [1_002]
        assert list(await store.log_lines(job.id, 0, 10, 3)) == []

    async def test_a_line_is_stored_once(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.add_log_lines([a_line(job)])
        assert await store.add_log_lines([a_line(job, text="other"), a_line(job, 2)]) == 1
        assert list(await store.log_lines(job.id, 0, 10)) == [a_line(job), a_line(job, 2)]

    async def test_lines_of_unknown_jobs_are_left_out(self, store: Store) -> None:
        job, ended = await run_job(store, a_job()), await run_and_end(store, a_job())
        lines = [a_line(a_job()), a_line(job), a_line(ended)]
        assert await store.add_log_lines(lines) == 2
        assert await store.add_log_lines([]) == 0
        assert await all_lines(store) == lines[1:]

    async def test_lines_go_with_their_job(self, store: Store) -> None:
        gone, kept = await run_and_end(store, a_job()), await run_and_end(store, a_job(), FAILURE)
        await store.add_log_lines([a_line(gone), a_line(kept)])
        await store.prune(finished_before=NOW + DAY, failed_before=NOW - DAY, limit=10)
        assert await all_lines(store) == [a_line(kept)]

    async def test_a_retry_keeps_the_lines(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        await store.add_log_lines([a_line(job)])
        await store.retry([job.id], NOW)
        assert await all_lines(store) == [a_line(job)]

    async def test_all_lines_are_exported_in_order(self, store: Store) -> None:
        jobs = [await run_job(store, a_job()) for _ in range(3)]
        lines = [a_line(job, number) for job in jobs for number in (1, 2, 1_001)]
        await store.add_log_lines(lines[::-1])
        assert await all_lines(store) == lines
