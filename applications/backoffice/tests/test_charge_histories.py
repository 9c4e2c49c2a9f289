"""The charge in many histories with crashes: the gateway is asked once for each invoice."""

from collections.abc import Iterator

import pytest

from onbeat.testing import VirtualRun, run_with_crashes
from stripe_server import StripeServer
from till import Counterparty, Till, build, choose, states
from world import NOW, World

HISTORIES = 12
CENTS = 2_499


@pytest.fixture
def till(world: World, jobs: str, stripe_server: StripeServer) -> Iterator[Till]:
    choose(world, "stripe")
    result = build(world, jobs, stripe=stripe_server.url)
    yield result
    # Their connections belong to the loop of the program's threads, where hooks run too.
    result.beat.on_stop(result.gateways.close)
    result.beat.on_stop(result.database.close)
    with result.beat.started():
        pass
    result.beat.close()


def test_an_invoice_is_charged_once_in_every_history(
    world: World, jobs: str, till: Till, stripe_server: StripeServer
) -> None:
    ada = Counterparty(world, customer=stripe_server.customer())
    ada.card()
    invoices: list[int] = []

    def bill(_trial: VirtualRun) -> None:
        for key, charges in stripe_server.charges.items():
            assert len(charges) == 1, f"{key} was charged {charges}"
        invoices.append(ada.invoice(CENTS))
        till.task.send(invoices[-1], NOW)

    report = run_with_crashes(
        till.beat, bill, histories=HISTORIES, at=NOW.isoformat(), lasts="1h", store=jobs
    )
    assert report.histories == HISTORIES
    assert sum(report.mishaps.values()) >= HISTORIES // 4
    assert stripe_server.charges == {ada.key(invoice): [CENTS] for invoice in invoices}
    assert [states(world, invoice) for invoice in invoices] == [["PAID"]] * HISTORIES
