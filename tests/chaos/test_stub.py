"""Caller, journals and judge together see each promise that a queue breaks, and only that one."""

import asyncio
import random

import pytest

from chaos.client import Client
from chaos.stub import NUMBER, WRONGS, Queue
from chaos.verdict import Verdict, judge, table


async def judged(queue: Queue) -> Verdict:
    async with queue.serving() as address:
        client = Client(queue.place, [address], random.Random(1))
        async with client.sending():
            work = [client.ask("work", [0.0]) for _ in range(NUMBER + 2)]
            await asyncio.gather(*work, client.ask("poison", []))
        assert not client.refusals
    return judge(queue.journals())


@pytest.mark.parametrize("wrong", WRONGS)
async def test_a_queue_that_is_wrong_in_one_way_is_found_out(wrong, tmp_path):
    verdict = await judged(Queue(tmp_path, wrong))
    found = {name for name in Verdict.VIOLATIONS if getattr(verdict, name)}
    assert found == {WRONGS[wrong]}, table(wrong, verdict)
    assert not verdict.is_good


async def test_a_queue_that_keeps_its_promises_is_good(tmp_path):
    verdict = await judged(Queue(tmp_path, None))
    assert verdict.is_good, table("right", verdict)
    assert verdict.ok == verdict.accepted > NUMBER
    assert not verdict.recovered


async def test_a_job_that_runs_again_after_a_kill_is_recovered(tmp_path):
    verdict = await judged(Queue(tmp_path, None, is_killed=True))
    assert verdict.is_good, table("killed", verdict)
    assert len(verdict.recovered) == 1


def test_every_violation_has_a_wrong():
    assert set(WRONGS.values()) == set(Verdict.VIOLATIONS)
