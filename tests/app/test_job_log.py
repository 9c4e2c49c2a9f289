"""`beat.jobs.log`: what the handlers of a program log is kept with their jobs."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from onbeat import Context, Job, NotFound, Onbeat, Options, Retry
from onbeat.targets.handler_log import INSTALLATION
from onbeat.types import JobLogAnswer

AT = "2026-11-23T03:00Z"
NOBODY = "01900000-0000-7000-8000-000000000000"
log = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def shop() -> Iterator[None]:
    log.setLevel(logging.DEBUG)
    yield
    log.setLevel(logging.NOTSET)


def told(answer: JobLogAnswer) -> list[tuple[int, str, str, str]]:
    return [(one.attempt, one.level, one.logger, one.text) for one in answer.lines]


def test_each_attempt_keeps_what_its_handler_logs() -> None:
    beat = Onbeat("memory://")

    @beat.task(retry=Retry(attempts_max=2, jitter=False))
    def mail(context: Context, to: str) -> None:
        context.log.info("mail to %s", to, extra={"to": to, "password": "x"})
        log.debug("too low")
        if context.attempt == 1:
            raise ValueError("not yet")
        log.warning("slow")

    with beat.testing(at=AT) as trial:
        job: Job[None] = mail.send("ada")
        trial.advance("1h")
        lines = [
            (1, "info", "onbeat.handler", "mail to ada"),
            (2, "info", "onbeat.handler", "mail to ada"),
            (2, "warning", "shop", "slow"),
        ]
        answer = beat.jobs.log(job.id)
        assert (told(answer), answer.after) == (lines, None)
        assert answer.lines[0].to_dict()["fields"] == {"to": "ada", "password": "***"}
        assert told(beat.jobs.log(job.id, attempt=2)) == lines[1:]
        page = beat.jobs.log(job.id, limit=2)
        assert (told(page), page.after) == (lines[:2], page.lines[-1].number)
        assert told(beat.jobs.log(job.id, after=page.after or 0)) == lines[2:]
        with pytest.raises(NotFound):
            beat.jobs.log(NOBODY)


async def test_threads_and_tasks_of_a_handler_log_for_it() -> None:
    beat = Onbeat("memory://")

    @beat.task
    def plain() -> None:
        log.info("in a thread")

    @beat.task
    async def coroutine() -> None:
        await asyncio.gather(asyncio.to_thread(log.info, "its thread"), said("its task"))

    async def said(word: str) -> None:
        log.info(word)

    async with beat:
        tasks: list[tuple[Any, set[str]]] = [
            (plain, {"in a thread"}),
            (coroutine, {"its thread", "its task"}),
        ]
        for task, words in tasks:
            job: Any = await task.asend()
            await job.aresult(60)
            await beat._running.runtime.job_log.flush()
            assert {line.text for line in (await beat.jobs.alog(job.id)).lines} == words
    assert INSTALLATION.handler not in logging.getLogger().handlers


@pytest.mark.parametrize(("level", "kept"), [("debug", 3), ("warning", 1), ("error", 0), (None, 0)])
def test_a_program_chooses_what_is_kept(level: Any, kept: int) -> None:
    beat = Onbeat("memory://", options=Options(log_level=level))

    @beat.task
    def work(context: Context) -> None:
        context.log.debug("low")
        log.info("middle")
        log.warning("high")

    with beat.testing(at=AT) as trial:
        job: Job[None] = work.send()
        trial.drain()
        assert len(beat.jobs.log(job.id).lines) == kept
        assert (INSTALLATION.handler in logging.getLogger().handlers) == (level is not None)


def test_secrets_of_the_service_are_hidden() -> None:
    beat = Onbeat("memory://", options=Options(secrets=("hunter22",)))

    @beat.task
    def work() -> None:
        log.info("the key is hunter22")

    with beat.testing(at=AT) as trial:
        job: Job[None] = work.send()
        trial.drain()
        assert [one.text for one in beat.jobs.log(job.id).lines] == ["the key is ***"]
