"""`make run-backoffice`: a month is billed while you look.

Private databases and queues on the MariaDB and RabbitMQ of this machine, the processes of the back
office by their roles, and local servers in the place of Stripe, mails, settings, ARI and S3.
ONBEAT_TEST_MYSQL and ONBEAT_TEST_RABBITMQ name servers elsewhere.

With `--kill` a random process is killed every five seconds, and started again. At the end the sums
are printed; the exit code is 0 if they add up.
"""

import argparse
import asyncio
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE.parent / "tests")]

from rich.console import Console  # noqa: E402
from rich.live import Live  # noqa: E402
from rich.table import Table  # noqa: E402

from backoffice.tasks import MONTHLY  # noqa: E402
from crowd import customers  # noqa: E402
from neighbours import Neighbours, neighbours  # noqa: E402
from onbeat import Onbeat  # noqa: E402
from processes import Broker, Process, variables  # noqa: E402
from sums import Sums, read_sums  # noqa: E402
from till import choose  # noqa: E402
from world import World, mariadb  # noqa: E402

ROLES: Final = (*2 * ("distributor",), *2 * ("worker-billing",), "worker-recordings")
TRIGGERED: Final = (MONTHLY, "mails.customer_satisfaction_survey", "recordings.select")
KILL_PERIOD: Final = 5.0
LOOK_PERIOD: Final = 0.5
PATIENCE: Final = 600.0
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

console = Console(highlight=False)


class Fleet:
    """The processes; one that ends is started again."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        self.processes = [self.start(number) for number in range(len(ROLES))]
        self.kills = 0

    def start(self, number: int) -> Process:
        return Process(self.environment, ROLES[number], self.folder / f"{number}.log")

    def restart(self) -> None:
        for number, process in enumerate(self.processes):
            if not process.is_running:
                self.processes[number] = self.start(number)

    @property
    def is_ready(self) -> bool:
        return all(process.is_ready for process in self.processes)

    def kill_one(self) -> None:
        random.choice(self.processes).kill()
        self.kills += 1

    def stop(self) -> None:
        for process in self.processes:
            process.process.terminate()
        for process in self.processes:
            process.process.wait(PATIENCE)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Bill a month while you look.")
    parser.add_argument("--workspaces", type=int, default=1_000, metavar="N")
    parser.add_argument("--kill", action="store_true", help="kill a process now and then")
    return parser.parse_args()


def provide(world: World, around: Neighbours, number: int) -> None:
    """Customers: of ten one pays from credits, of twenty one by a card without money."""
    server = around.stripe
    choose(world, "stripe")
    customers(world, number, stripe_id=server.customer())
    payg = world.plan("payg", monthly_cost_cents=1_000, pay_as_you_go=1)
    world.run("UPDATE subscriptions SET current_plan_id = ? WHERE mod(id, 10) = 3", payg)
    world.run(
        "INSERT INTO users_credits (cents, workspace_id, created_at)"
        " SELECT IF(mod(id, 20) = 3, 600, 5000), id, now() FROM workspaces WHERE mod(id, 10) = 3"
    )
    world.run(
        "UPDATE users_cards SET stripe_payment_method_id = CASE WHEN mod(id, 40) = 1"
        " THEN 'pm_card_chargeDeclinedStolenCard' ELSE 'pm_card_chargeDeclinedInsufficientFunds'"
        " END WHERE mod(id, 20) = 1"
    )
    server.fail("503", times=number // 50)
    server.fail("drop after", times=number // 50)
    around.provide(world, number)


def look(sums: Sums, fleet: Fleet, seconds: float) -> Table:
    table = Table(title=f"A month of {sums.workspaces} workspaces, after {seconds:.0f} s")
    table.add_column("what")
    table.add_column("bills", justify="right")
    table.add_column("USD", justify="right")
    for name, number, cents in sums.rows():
        table.add_row(name, f"{number:,}", f"{cents / 100:,.2f}" if cents is not None else "")
    table.add_section()
    running = sum(process.is_running for process in fleet.processes)
    table.add_row(f"processes running, of {len(ROLES)}", str(running), "")
    table.add_row("processes killed", str(fleet.kills), "")
    return table


def bill(world: World, around: Neighbours, fleet: Fleet, given: argparse.Namespace) -> Sums:
    """Until the run is done and no bill waits."""
    began = time.monotonic()
    killed = began - KILL_PERIOD
    beat = Onbeat(world.url)
    with beat, Live(console=console, refresh_per_second=4) as live:
        for key in TRIGGERED:
            beat.schedules.trigger(key)
        while True:
            sums = read_sums(world, around, beat, given.workspaces)
            now = time.monotonic()
            live.update(look(sums, fleet, now - began))
            if sums.is_done:
                return sums
            if now - began > PATIENCE:
                raise TimeoutError(f"{sums.waiting} bills wait after {PATIENCE:.0f} s")
            if given.kill and now - killed > KILL_PERIOD and fleet.is_ready and sums.answered:
                fleet.kill_one()
                killed = now
            fleet.restart()
            time.sleep(LOOK_PERIOD)


@contextmanager
def broker() -> Iterator[Broker]:
    result = Broker()
    try:
        yield result
    finally:
        asyncio.run(result.close())


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal waits for the end of the block: what was begun is there, and can be removed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def run(given: argparse.Namespace) -> int:
    console.print(f"{given.workspaces} bills, by {len(ROLES)} processes; Ctrl-C stops")
    with ExitStack() as stack:
        with uninterrupted():
            url = stack.enter_context(mariadb())
            queues = stack.enter_context(broker())
            around = stack.enter_context(neighbours())
            folder = stack.enter_context(TemporaryDirectory())
        world = World(url)
        provide(world, around, given.workspaces)
        environment = variables(world, queues, **around.variables)
        fleet = Fleet(environment, Path(folder))
        try:
            for process in fleet.processes:
                process.ready()
            sums = bill(world, around, fleet, given)
        finally:
            fleet.stop()
        sums.events = len(asyncio.run(queues.take("failed_payments")))
    return report(sums)


def report(sums: Sums) -> int:
    for line, is_right in sums.checks():
        console.print(f"  [{'green]yes' if is_right else 'red]NO '}[/]  {line}")
    return 0 if all(is_right for _, is_right in sums.checks()) else 1


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A shell that starts it in the background lets it ignore SIGINT.
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        sys.exit(run(arguments()))
    except KeyboardInterrupt:
        console.print("stopped; the databases, queues and processes of the demo are gone")
        sys.exit(130)
