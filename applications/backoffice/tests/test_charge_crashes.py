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
from till import Counterparty, build, choose, eventually, running, standing, states
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


def all_complete(world: World, invoices: list[int]) -> bool:
    ((done,),) = world.rows("SELECT count(*) FROM users_invoices WHERE status = 'COMPLETE'")
    return bool(done == len(invoices))
