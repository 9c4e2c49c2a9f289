"""The whole back office: processes by role on MariaDB and RabbitMQ, and the commands of an operator."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from backoffice.__main__ import main
from backoffice.tasks import MONTHLY
from crowd import customers
from onbeat import Onbeat
from processes import Broker, Process, command, eventually, running, variables
from rabbitmq_server import rabbitmq
from stripe_server import StripeServer
from test_intake import OLD
from till import choose
from world import World, mariadb


@pytest.fixture
def office() -> Iterator[World]:
    """A schema of its own, which the jobs are kept in too."""
    with mariadb() as url:
        yield World(url)


@pytest.fixture
def broker() -> Iterator[Broker]:
    result = Broker()
    yield result
    asyncio.run(result.close())


class Prompt:
    """The commands of an operator, without a process for each of them."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.patch = patch
        self.capsys = capsys

    def run(self, environment: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
        """The exit code, and what was printed."""
        for name, value in environment.items():
            self.patch.setenv(name, value)
        code = main(arguments)
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prompt:
    return Prompt(monkeypatch, capsys)


def taken(broker: Broker, queue: str) -> Sequence[Any]:
    return asyncio.run(broker.take(queue))


def invoices(world: World) -> dict[str, int]:
    return dict(world.rows("SELECT status, count(*) FROM users_invoices GROUP BY status"))


def test_s1_53_a_month_is_billed_by_a_command(
    office: World, broker: Broker, stripe_server: StripeServer, prompt: Prompt, tmp_path: Path
) -> None:
    """Roles by RUN_AS, a final failure as one event, the figures in the status."""
    choose(office, "stripe")
    customers(office, 20, stripe_id=stripe_server.customer())
    office.run(
        "UPDATE users_cards SET stripe_payment_method_id = 'pm_card_chargeDeclinedStolenCard'"
        " WHERE workspace_id = 7"
    )
    environment = variables(office, broker, STRIPE_URL=stripe_server.url)
    with running(environment, tmp_path, "distributor", "worker-billing") as (distributor, worker):
        ran = command(environment, "monthly_billing", "--json")
        assert ran.returncode == 0, ran.stderr + worker.text()
        report = json.loads(ran.stdout)
        assert report["jobs"][0]["result"] == {"sent": 20}
        assert report["bills"] == {"declined": 1, "failed": 0, "errors": []}
        code, printed, _ = prompt.run(environment, "monthly_billing", "--json")
        assert (code, json.loads(printed)["jobs"][0]["result"]) == (0, {"sent": 0})
        failed = eventually(lambda: taken(broker, "failed_payments"), "an event")
        status = json.loads(prompt.run(environment, "status")[1])
        assert prompt.run(environment, "retry_failed_billing_attempts")[0] == 0
    assert invoices(office) == {"COMPLETE": 19, "INCOMPLETE": 1}
    assert sum(map(len, stripe_server.charges.values())) == 19
    assert sum(map(sum, stripe_server.charges.values())) == 19 * 2_499
    (event,) = [json.loads(message.body) for message in failed]
    assert event.keys() == {
        "run_id", "workspace_id", "subscription_id", "creator_id", "reason"
    }  # fmt: skip
    assert (event["workspace_id"], event["subscription_id"]) == (7, 7)
    assert failed[0].delivery_mode == 2
    (run,) = status["runs"]
    assert (run["invoices"], run["complete"], run["collected"]) == (20, 19, 19 * 2_499)
    assert "Distribution Finished. Total Billing Queued: 20. Billed before: 0" in distributor.text()
    assert "Distribution Finished. Total Billing Queued: 0. Billed before: 20" in distributor.text()
    assert taken(broker, "failed_payments") == []
    for line in map(json.loads, worker.text().splitlines()):
        if line["event"].startswith("invoice "):
            assert {"component", "workspace_id", "run_id"} <= line.keys()


def test_s1_d13_a_bill_that_could_not_be_made_is_made_by_the_next_run(
    office: World, broker: Broker, stripe_server: StripeServer, prompt: Prompt, tmp_path: Path
) -> None:
    """And the command says so as long as it is not."""
    choose(office, "stripe")
    plan = customers(office, 3, stripe_id=stripe_server.customer())
    office.run("UPDATE subscriptions SET current_plan_id = 4711 WHERE id = 2")
    environment = variables(office, broker, STRIPE_URL=stripe_server.url)
    with running(environment, tmp_path, "distributor", "worker-billing"):
        for sent in (3, 1):
            code, printed, _ = prompt.run(environment, "monthly_billing", "--json")
            report = json.loads(printed)
            assert (code, report["jobs"][0]["result"]) == (1, {"sent": sent})
            (error,) = report["bills"]["errors"]
            assert error.startswith("MONTHLY:2:")
            assert error.endswith("plan not found for subscription 2: 4711")
        assert invoices(office) == {"COMPLETE": 2}
        code, printed, _ = prompt.run(environment, "retry_failed_billing_attempts")
        assert (code, "bills: 0 declined for good, 0 failed" in printed) == (0, True)
        office.run("UPDATE subscriptions SET current_plan_id = ?", plan)
        code, printed, _ = prompt.run(environment, "monthly_billing")
        assert (code, '{"sent": 1}' in printed) == (0, True)
    assert invoices(office) == {"COMPLETE": 3}
    assert [len(charges) for charges in stripe_server.charges.values()] == [1, 1, 1]


def test_s1_37_a_new_card_is_charged_by_hand_on_the_same_day(
    office: World, broker: Broker, stripe_server: StripeServer, prompt: Prompt, tmp_path: Path
) -> None:
    choose(office, "stripe")
    customers(office, 1, stripe_id=stripe_server.customer())
    declined = "UPDATE users_cards SET stripe_payment_method_id = ?"
    office.run(declined, "pm_card_chargeDeclinedStolenCard")
    environment = variables(office, broker, STRIPE_URL=stripe_server.url)
    with running(environment, tmp_path, "distributor", "worker-billing"):
        assert prompt.run(environment, "monthly_billing")[0] == 0
        retry = ("retry_failed_billing_attempts", "--json")
        for card in ("pm_card_chargeDeclinedExpiredCard", "pm_card_visa"):
            office.run(declined, card)
            code, printed, _ = prompt.run(environment, *retry)
            assert (code, json.loads(printed)["jobs"][0]["result"]) == (0, {"sent": 1})
        code, printed, _ = prompt.run(environment, *retry)
        assert json.loads(printed)["jobs"][0]["result"] == {"sent": 0}
    assert invoices(office) == {"COMPLETE": 1}
    assert sum(map(len, stripe_server.charges.values())) == 1


@pytest.mark.timeout(300)  # RabbitMQ starts twice, each time for up to PATIENCE
def test_s1_11_a_broker_that_is_killed_in_a_run_holds_up_no_bill_and_loses_no_event(
    office: World, stripe_server: StripeServer, tmp_path: Path
) -> None:
    choose(office, "stripe")
    customers(office, 20, stripe_id=stripe_server.customer())
    office.run(
        "UPDATE users_cards SET stripe_payment_method_id = 'pm_card_chargeDeclinedStolenCard'"
        " WHERE workspace_id IN (7, 11)"
    )
    with rabbitmq() as server:
        broker = Broker(server.url)
        environment = variables(office, broker, STRIPE_URL=stripe_server.url)
        with running(environment, tmp_path, "distributor", "worker-billing") as (distributor, _):
            server.kill()
            assert command(environment, "monthly_billing").returncode == 0
            assert invoices(office) == {"COMPLETE": 18, "INCOMPLETE": 2}
            eventually(lambda: "broker.away" in distributor.text(), "a message that waits")
            server.start()
            with Onbeat(office.url) as beat:
                eventually(lambda: sent_messages(beat) == 2, "both messages")
            assert distributor.is_running
        events = [json.loads(message.body) for message in taken(broker, "failed_payments")]
    assert sorted(event["workspace_id"] for event in events) == [7, 11]
    assert sum(map(len, stripe_server.charges.values())) == 18


def sent_messages(beat: Onbeat) -> int:
    jobs = beat.jobs.list(state="succeeded", queue="distribution")
    return sum(bool(job.target.message) for job in jobs)


def test_s1_d06_tasks_of_old_publishers_are_taken_and_malformed_ones_are_not(
    office: World, broker: Broker, stripe_server: StripeServer, tmp_path: Path
) -> None:
    choose(office, "stripe")
    customers(office, 1, stripe_id=stripe_server.customer())
    old = OLD | {"workspace_id": 1, "creator_id": 1, "subscription_id": 1, "plan_to_bill": 1}
    old["plan_to_bill"] = office.rows("SELECT id FROM service_plans")[0][0]
    bad = json.dumps({name: old[name] for name in old if name != "plan_to_bill"}).encode()

    async def publish() -> None:
        await broker.declare("billing_tasks")
        for body in (json.dumps(old).encode(), bad, json.dumps(old).encode()):
            await broker.send("billing_tasks", body)

    asyncio.run(publish())
    environment = variables(office, broker, STRIPE_URL=stripe_server.url)
    with running(environment, tmp_path, "all") as (everything,):
        with Onbeat(office.url) as beat:
            beat.schedules.trigger("billing.take_old_tasks")  # instead of the next minute
        (dead,) = eventually(lambda: taken(broker, "billing_tasks.dead"), "a dead letter")
        eventually(lambda: invoices(office) == {"COMPLETE": 1}, "a paid invoice")
    assert dead.body == bad
    assert dead.headers["reason"] == "plan_to_bill is missing"
    assert "plan_to_bill is missing" in everything.text()
    assert list(stripe_server.charges) == ["lineblocs_1_2026-10-01_MONTHLY_1"]
    assert taken(broker, "billing_tasks") == []


def test_s1_53_before_the_first_start_there_is_nothing_to_run(
    office: World, broker: Broker, prompt: Prompt
) -> None:
    code, _, why = prompt.run(variables(office, broker), "remove_logs")
    assert (code, "start `backoffice up` once" in why) == (1, True)


def test_s1_53_each_command_ends_with_0(
    office: World, broker: Broker, prompt: Prompt, tmp_path: Path
) -> None:
    environment = variables(office, broker, MAIL_API_URL="http://127.0.0.1:9/api/sendEmail")
    old = "INSERT INTO debugger_logs (message, created_at) VALUES ('x', now() - INTERVAL ? DAY)"
    names = ("cleanup", "background_emails", "monthly_billing", "annual_billing", "remove_logs")
    with running(environment, tmp_path, "distributor") as (distributor,):
        office.run(old, 8)
        office.run(old, 6)
        for name in (*names, "retry_failed_billing_attempts"):
            code, printed, why = prompt.run(environment, name, "--json")
            assert code == 0, why + distributor.text()
            assert json.loads(printed)["command"] == name
        distributor.stop()
    code, printed, _ = prompt.run(environment, "cleanup", "--timeout", "0.5", "--json")
    assert (code, json.loads(printed)["pending"]) == (4, 1)
    assert office.rows("SELECT count(*) FROM debugger_logs") == [(1,)]


def test_s1_d37_a_worker_drains_at_sigterm(
    office: World, broker: Broker, stripe_server: StripeServer, tmp_path: Path
) -> None:
    """Its bills are paid, or left to others; no answer of the gateway is lost."""
    choose(office, "stripe")
    customers(office, 40, stripe_id=stripe_server.customer())
    environment = variables(office, broker, STRIPE_URL=stripe_server.url)
    with running(environment, tmp_path, "distributor", "worker-billing") as (_, worker):
        with Onbeat(office.url) as beat:
            beat.schedules.trigger(MONTHLY)
        eventually(lambda: invoices(office).get("COMPLETE"), "a paid invoice")
        assert worker.stop() == 0
        states: dict[str, int] = dict(
            office.rows("SELECT state, count(*) FROM charges GROUP BY state")
        )
        assert states.keys() == {"PAID"}
        assert states["PAID"] == sum(map(len, stripe_server.charges.values()))
        other = Process(environment, "worker-billing", tmp_path / "other.log")
        eventually(lambda: invoices(office) == {"COMPLETE": 40}, "the rest")
        assert other.stop() == 0
    assert sum(map(len, stripe_server.charges.values())) == 40


@pytest.mark.parametrize("arguments", [(), ("bill",), ("cleanup", "--now"), ("status", "5")])
def test_s1_53_wrong_usage_ends_with_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert "usage: backoffice" in capsys.readouterr().err


def test_s1_57_another_role_ends_with_1_and_the_names(
    office: World, broker: Broker, prompt: Prompt
) -> None:
    code, printed, why = prompt.run(variables(office, broker, RUN_AS="worker"), "up")
    assert (code, printed) == (1, "")
    assert "distributor, worker-billing, worker-recordings, all, not 'worker'" in why


def test_a_wrong_variable_is_one_line(office: World, broker: Broker, prompt: Prompt) -> None:
    assert prompt.run(variables(office, broker, DB_PORT="x"), "status") == (
        *(2, ""),
        "backoffice: DB_PORT is a whole number from 1 to 99999, not 'x'\n",
    )
