"""`onbeat logs` against a store on disk."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from interfaces.test_cli_requests import NOBODY, asked, onbeat
from onbeat.app.stores import open_store
from onbeat.cli import job_log
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.log_line import JobLogLine
from onbeat.model.outcome import Succeeded
from onbeat.ports.store import ClaimRequest, Store
from onbeat.testing.store_contract.steps import a_settlement

__all__ = ["asked", "onbeat"]  # fixtures


def in_store(work: Callable[[Store], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        store = open_store("sqlite:///onbeat.db")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def a_line(job: str, number: int, text: str = "sent", **fields: Any) -> JobLogLine:
    given: dict[str, Any] = {
        "attempt": 1,
        "at": datetime.now(UTC),
        "level": "info",
        "logger": "shop",
    } | fields
    return JobLogLine(job_id=JobId(job), number=number, text=text, **given)


def test_lines_are_shown_with_their_fields(onbeat: Any, asked: Any) -> None:
    job = onbeat("job", "add", "--task", "work").stdout.strip()
    assert onbeat("logs", job).output == "no lines are kept\n"
    lines = [
        a_line(job, 1, "sent\x1b[1m to\nTraceback", fields='{"to":"ada\\nx","n":[2]}'),
        a_line(job, 1_001, "again", attempt=2, level="warning"),
    ]
    in_store(lambda store: store.add_log_lines(lines))
    first, more, second = onbeat("logs", job).output.splitlines()
    assert first.endswith("info     1 shop: sent\\e[1m to to=ada\\nx n=[2]")
    assert more == "    Traceback"
    assert second.endswith("warning  2 shop: again")
    (shown,) = asked("logs", job, "--attempt", "2")["lines"]
    assert (shown["number"], shown["text"], shown["fields"]) == (1_001, "again", {})


def test_all_pages_are_read(onbeat: Any, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "PAGE_LIMIT_MAX", 2)
    job = onbeat("job", "add", "--task", "work").stdout.strip()
    lines = [a_line(job, number) for number in range(1, 6)]
    in_store(lambda store: store.add_log_lines(lines))
    assert [one["number"] for one in asked("logs", job)["lines"]] == [1, 2, 3, 4, 5]


def test_an_unknown_job_and_a_bad_id_are_refused(onbeat: Any) -> None:
    assert f"Job not found: {NOBODY}" in onbeat("logs", NOBODY, code=1).stderr
    assert "onbeat job list" in onbeat("logs", "soon", code=1).stderr


async def end_with(store: Store, *texts: str) -> None:
    """The job of the task `work` runs, logs and ends."""
    now = datetime.now(UTC)
    request = ClaimRequest(worker=WorkerId("w"), now=now, limit=1, lanes=frozenset({"work"}))
    (job,) = (await store.claim(request)).jobs
    await store.settle([a_settlement(job, Succeeded(), now)])
    await store.add_log_lines([a_line(job.id, n, text) for n, text in enumerate(texts, 1)])


def test_follow_goes_on_until_the_job_has_ended(
    onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "POLL_SECONDS", 0.01)
    job = onbeat("job", "add", "--task", "work").stdout.strip()
    polls: list[int] = []
    show_lines = job_log.show_lines

    def shown(lines: list[job_log.Line]) -> None:
        polls.append(len(lines))
        show_lines(lines)

    async def ended_between(seconds: float) -> None:
        if len(polls) == 2:
            store = open_store("sqlite:///onbeat.db")
            await store.open()
            await end_with(store, "one", "two")
            await store.close()
        await asyncio.sleep(seconds)

    monkeypatch.setattr(job_log, "show_lines", shown)
    monkeypatch.setattr(job_log, "pause", ended_between)
    output = onbeat("logs", job, "--follow").output
    assert [line.rpartition(" ")[2] for line in output.splitlines()] == ["one", "two"]
    # Twice without lines before the end, with all lines after it, and once more.
    assert polls == [0, 0, 2, 0]


def test_each_line_that_is_followed_is_a_document(onbeat: Any) -> None:
    job = onbeat("job", "add", "--task", "work").stdout.strip()
    in_store(lambda store: end_with(store, "one", "two"))
    lines = onbeat("logs", job, "--follow", "--json").output.splitlines()
    assert ['"text":"one"' in lines[0], '"text":"two"' in lines[1], len(lines)] == [True, True, 2]
