"""A process that is killed after the gateway has charged changes nothing in the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import charge_victim
from charge_victim import runtime
from till import Counterparty, Till, build, choose, eventually, running, standing, states
from world import World


class Victims:
    """Processes that charge one invoice each."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, charge_victim.__file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def charge(self, *words: object) -> tuple[int, int]:
        """The exit code, and the number of points."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        code, points = self.process.stdout.readline().split()
        return int(code), int(points)

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    result = Victims()
    yield result
    result.close()


@pytest.mark.parametrize(("provider", "kills"), [("stripe", 20), ("braintree", 5)])
async def test_s1_a09_a_worker_killed_after_the_answer_charges_once(
    world: World,
    jobs: str,
    provider: str,
    kills: int,
    stripe_server: Any,
    braintree_server: Any,
    victims: Victims,
) -> None:
    """At points from the answer to the commit, the first and the last too; then one goes on."""
    choose(world, provider)
    server = {"stripe": stripe_server, "braintree": braintree_server}[provider]
    one = Counterparty(world, customer=stripe_server.customer())
    one.card()
    invoices = [one.invoice(1_000 + number) for number in range(kills + 1)]
    urls = (world.url, jobs, stripe_server.url, braintree_server.url)
    code, points = victims.charge(*urls, invoices[0], 0)
    assert code == 0
    assert points >= kills
    for number, invoice in enumerate(invoices[1:]):
        at = 1 + number * (points - 1) // (kills - 1)  # from the first to the last
        assert victims.charge(*urls, invoice, at) == (-signal.SIGKILL, 0)
    assert len(server.charges) == kills + 1
    rows = world.rows("SELECT count(*) FROM users_invoices WHERE status = 'INCOMPLETE'")
    assert rows >= [(kills - 2,)], "they were killed before the commit"

    till = build(world, jobs, stripe=urls[2], braintree=urls[3], runtime=runtime(), sidecar=False)
    async with running(till):
        await eventually(lambda: all_complete(world, invoices), "all invoices complete")
    assert server.charges == {
        one.key(invoice): [1_000 + number] for number, invoice in enumerate(invoices)
    }
    for number, invoice in enumerate(invoices):
        assert standing(world, invoice) == ("COMPLETE", "CARD", 1_000 + number, 1)
        assert states(world, invoice) == ["PAID"]


KILLS = 8


async def test_s1_d10_a_worker_killed_at_a_final_decline_tells_of_it_once(
    world: World, jobs: str, stripe_server: Any, victims: Victims
) -> None:
    choose(world, "stripe")
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_chargeDeclinedStolenCard")
    invoices = [one.invoice(1_000) for _ in range(KILLS + 1)]
    kill(victims, (world.url, jobs, stripe_server.url, "-"), invoices)
    till = build(world, jobs, stripe=stripe_server.url, runtime=runtime(), sidecar=False)
    async with running(till):
        await eventually(lambda: is_done(till), "the end of all jobs")
        assert len(await till.messages(one.workspace)) == len(invoices)
    for invoice in invoices:
        assert states(world, invoice) == ["REFUSED"]
        assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 1)


async def test_a_worker_killed_while_cards_change_charges_the_new_one_once(
    world: World, jobs: str, stripe_server: Any, victims: Victims
) -> None:
    """After the cancel, and after the answer about the new card too."""
    choose(world, "stripe")
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_requiresAction")
    invoices = [one.invoice(1_000) for _ in range(KILLS + 1)]
    till = build(world, jobs, stripe=stripe_server.url, sidecar=False)
    async with running(till):
        for invoice in invoices:
            assert (await till.charge(invoice)).outcome == "pending"
    one.card()
    kill(victims, (world.url, jobs, stripe_server.url, "-"), invoices)
    till = build(world, jobs, stripe=stripe_server.url, runtime=runtime(), sidecar=False)
    async with running(till):
        await eventually(lambda: is_done(till), "the end of all jobs")
        assert await till.messages(one.workspace) == []
    for invoice in invoices:
        assert states(world, invoice) == ["DECLINED", "PAID"]
        assert standing(world, invoice) == ("COMPLETE", "CARD", 1_000, 2)
    assert stripe_server.charges == {one.key(invoice, "_2"): [1_000] for invoice in invoices}


def kill(victims: Victims, urls: tuple[str, ...], invoices: list[int]) -> None:
    """A worker at each of some points of all but the first, from the first to the last."""
    code, points = victims.charge(*urls, invoices[0], 0)
    assert code == 0
    assert points >= KILLS
    for number, invoice in enumerate(invoices[1:]):
        at = 1 + number * (points - 1) // (KILLS - 1)
        assert victims.charge(*urls, invoice, at) == (-signal.SIGKILL, 0)


async def is_done(till: Till) -> bool:
    waiting = await till.beat.jobs.alist(task="billing.charge", state="waiting")
    return not waiting and not await till.beat.jobs.alist(task="billing.charge", state="running")


def all_complete(world: World, invoices: list[int]) -> bool:
    ((done,),) = world.rows("SELECT count(*) FROM users_invoices WHERE status = 'COMPLETE'")
    return bool(done == len(invoices))
