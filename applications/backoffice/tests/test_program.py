"""The program on a virtual clock: when its schedules fire, and what a run that fails leaves."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backoffice.__main__ import prepared
from backoffice.app import Program, build
from backoffice.config import Config
from backoffice.environment import ROLES
from backoffice.tasks import ANNUAL, BILLING_QUEUE, CHARGE, DEBUG, MONTHLY, BillingTask
from crowd import customers
from onbeat import JobFailed, NotFound, Onbeat
from stripe_server import StripeServer
from till import choose
from world import World

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def on_trial(
    world: World, at: datetime, *, paused: bool = True, **config: Any
) -> AsyncIterator[tuple[Any, Program]]:
    """The program on a store in memory. Charges wait, as they need one on MariaDB."""
    program = build(Config(database=world.url, **config), Onbeat("memory://"))
    async with program.beat.testing(at=at) as trial:
        if paused:
            await program.beat.queues.apause(BILLING_QUEUE)
        await trial.adrain()
        yield trial, program
    await program.aclose()


def occurrences(trial: Any, task: str) -> list[str]:
    """When it ran, without the seconds."""
    ran = [run.job for run in trial.ran if getattr(run.job.target, "task", "") == task]
    return [f"{job.occurrence:%m-%d %H:%M}" for job in ran]


async def tasks(program: Program) -> list[BillingTask]:
    jobs: Any = await program.beat.jobs.alist(task=CHARGE, limit=1_000)
    return [BillingTask(**job.target.args[0]) for job in jobs]


async def test_s1_03_s1_04_the_runs_are_on_the_first_at_midnight(world: World) -> None:
    async with on_trial(world, NEW_YEAR - timedelta(days=33)) as (trial, _):
        await trial.aadvance(timedelta(days=70))
        assert occurrences(trial, MONTHLY) == ["12-01 00:00", "01-01 00:00", "02-01 00:00"]
        assert occurrences(trial, ANNUAL) == ["01-01 00:00"]
        assert occurrences(trial, DEBUG) == []
        assert len(occurrences(trial, "billing.retry_failed")) == 70


async def test_s1_d41_midnight_is_that_of_the_zone(world: World) -> None:
    async with on_trial(world, NEW_YEAR - timedelta(days=1), zone="Asia/Tokyo") as (trial, _):
        await trial.aadvance(timedelta(days=1))
        assert occurrences(trial, MONTHLY) == occurrences(trial, ANNUAL) == ["12-31 15:00"]


async def test_s1_02_the_debug_run_is_each_minute(world: World) -> None:
    customers(world, 2)
    async with on_trial(world, NEW_YEAR + timedelta(seconds=30), debug=True) as (trial, program):
        await trial.aadvance(timedelta(minutes=2))
        assert occurrences(trial, DEBUG) == ["01-01 00:01", "01-01 00:02"]
        found = Counter(task.run_id for task in await tasks(program))
        assert found == {
            "MONTHLY_DEBUG:2027-01-01-00:01": 2,
            "MONTHLY_DEBUG:2027-01-01-00:02": 2,
        }


async def test_s1_02_the_debug_run_bills_by_anniversary_what_the_run_of_the_day_does(
    world: World,
) -> None:
    customers(world, 2)
    world.run("UPDATE subscriptions SET created_at = '2026-01-15' WHERE id = 2")
    by_day: dict[str, Any] = {"debug": True, "dates": "anniversary"}
    async with on_trial(world, NEW_YEAR + timedelta(seconds=30), **by_day) as (trial, program):
        await trial.aadvance(timedelta(minutes=1))
        assert [task.run_id for task in await tasks(program)] == ["MONTHLY_DEBUG:2026-12-01@01"]


async def test_s1_02_the_debug_run_ends_with_a_distributor_without_it(
    world: World, jobs: str
) -> None:
    config = Config(database=world.url, store=jobs)
    program = build(replace(config, debug=True))
    async with program.beat as beat:
        for role in ("worker-billing", "distributor"):
            assert (await beat.schedules.aget(DEBUG)).status == "active"
            await prepared(config, ROLES[role])
        with pytest.raises(NotFound):
            await beat.schedules.aget(DEBUG)
        await prepared(config, ROLES["distributor"])
    await program.aclose()


async def test_s1_05_recordings_are_looked_for_every_five_minutes(world: World) -> None:
    api: dict[str, Any] = {"api_url": "http://127.0.0.1:9", "api_token": "t"}
    async with on_trial(world, NEW_YEAR + timedelta(seconds=30), **api) as (trial, _):
        await trial.aadvance(timedelta(minutes=11))
        assert occurrences(trial, "recordings.select") == ["01-01 00:05", "01-01 00:10"]


async def test_s1_d11_an_outage_loses_no_month(world: World) -> None:
    """Nobody was there from October to the middle of December."""
    customers(world, 3)
    async with on_trial(world, datetime(2026, 10, 20, tzinfo=UTC)) as (trial, program):
        trial.clock.set(datetime(2026, 12, 15, tzinfo=UTC))
        await trial.adrain()
        assert occurrences(trial, MONTHLY) == ["11-01 00:00", "12-01 00:00"]
        found = Counter(task.run_id for task in await tasks(program))
        assert found == {"MONTHLY:2026-10": 3, "MONTHLY:2026-11": 3}


async def test_s1_d11_a_run_that_fails_at_midnight_is_tried_again(world: World) -> None:
    """The database is away; the old system had taken its lock, and lost the month."""
    customers(world, 3)
    async with on_trial(world, NEW_YEAR - timedelta(hours=1)) as (trial, program):
        world.run("RENAME TABLE subscriptions TO away")
        try:
            await trial.aadvance(timedelta(hours=1, seconds=2))
            assert await tasks(program) == []
        finally:
            world.run("RENAME TABLE away TO subscriptions")
        await trial.aadvance(timedelta(minutes=5))
        assert {task.run_id for task in await tasks(program)} == {"MONTHLY:2026-12"}


async def test_s1_a05_a_list_that_cannot_be_read_fails_the_job_with_that_error(
    world: World,
) -> None:
    async with on_trial(world, NEW_YEAR) as (trial, program):
        job = await program.billing.monthly.asend()
        world.run("RENAME TABLE workspaces TO away")
        try:
            await trial.aadvance(timedelta(hours=3))
        finally:
            world.run("RENAME TABLE away TO workspaces")
        with pytest.raises(JobFailed, match=r"workspaces' doesn't exist"):
            await job.aresult(5)
        assert (await job.ainfo()).attempt == 10


async def test_s1_09_runs_have_a_limit(world: World) -> None:
    api: dict[str, Any] = {"api_url": "http://127.0.0.1:9", "api_token": "t"}
    async with on_trial(world, NEW_YEAR, **api) as (trial, program):
        for key in (MONTHLY, ANNUAL, "recordings.select"):
            await program.beat.schedules.atrigger(key)
        await trial.adrain()
        limits = {run.job.target.task: run.job.timeout for run in trial.ran}
    hours = {name: limit / timedelta(hours=1) for name, limit in limits.items()}
    assert (hours[MONTHLY], hours[ANNUAL], hours["recordings.select"]) == (2, 2, 1)


async def test_s1_06_s1_07_a_second_run_of_a_period_adds_no_task(world: World) -> None:
    customers(world, 5)
    async with on_trial(world, NEW_YEAR) as (trial, program):
        for _ in range(2):
            await program.beat.schedules.atrigger(MONTHLY)
            await trial.adrain()
        assert Counter(task.run_id for task in await tasks(program)) == {"MONTHLY:2026-12": 5}


async def test_s1_a04_a_creator_who_is_gone_is_no_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    customers(world, 1)
    world.run("DELETE FROM users")
    async with on_trial(world, NEW_YEAR, paused=False) as (trial, program):
        await program.billing.monthly.asend()
        await trial.adrain()
        (job,) = await program.beat.jobs.alist(task=CHARGE)
    assert (job.state, job.result) == ("succeeded", None)
    for table in ("users_invoices", "charges", "users_debits"):
        assert world.rows(f"SELECT * FROM {table}") == []
    (line,) = [record for record in caplog.records if "is not billed" in record.message]
    assert (line.levelname, vars(line)["workspace_id"]) == ("ERROR", 1)


async def test_s1_d11_a_task_of_a_period_before_the_subscription_is_no_bill(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A publisher of the old system sends one for each that is active."""
    customers(world, 1)
    async with on_trial(world, NEW_YEAR, paused=False) as (trial, program):
        await program.billing.charge.asend(task_of(world, "MONTHLY:2026-12"))
        world.run("UPDATE subscriptions SET created_at = ?", NEW_YEAR)
        await trial.adrain()
        (job,) = await program.beat.jobs.alist(task=CHARGE)
    assert (job.state, job.result) == ("succeeded", None)
    assert world.rows("SELECT * FROM users_invoices") == []
    assert "its subscription began after 2026-12: workspace 1 is not billed" in caplog.text


@pytest.mark.parametrize(
    ("before", "ended", "state"),
    [(timedelta(seconds=2), 3, "succeeded"), (timedelta(hours=2), 0, "failed")],
)
async def test_s1_d11_a_month_is_billed_when_it_has_ended(
    world: World, before: timedelta, ended: int, state: str
) -> None:
    """The clock of its publisher may be ahead a little."""
    plan = customers(world, 1)
    world.run("UPDATE service_plans SET monthly_cost_cents = 0 WHERE id = ?", plan)
    world.run("DELETE FROM users")
    async with on_trial(world, NEW_YEAR - before, paused=False) as (trial, program):
        sent = await program.billing.charge.asend(task_of(world, "MONTHLY:2026-12"))
        await trial.adrain()
        if ended:
            assert (await sent.ainfo()).state == "waiting"
        await trial.aadvance(timedelta(seconds=ended))
        job = await sent.ainfo()
    assert job.state == state
    assert ended or "2026-12 has not ended" in str(job.error)


def task_of(world: World, run_id: str) -> BillingTask:
    """Of the first of `customers`."""
    ((plan,),) = world.rows("SELECT current_plan_id FROM subscriptions WHERE id = 1")
    return BillingTask(
        run_id=run_id,
        billing_type="MONTHLY",
        workspace_id=1,
        creator_id=1,
        subscription_id=1,
        action="renewal",
        plan_to_bill=plan,
        provider_subscription_id="",
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DELETE FROM service_plans", "plan not found for subscription 1"),
        ("UPDATE workspaces SET id = 2", "workspace 1 has no subscription 1|is not there"),
    ],
)
async def test_s1_20_a_task_that_cannot_be_billed_fails_at_once(
    world: World, change: str, why: str
) -> None:
    customers(world, 1)
    async with on_trial(world, NEW_YEAR, queue_url="amqp://127.0.0.1:9/") as (trial, program):
        await program.billing.monthly.asend()
        await trial.adrain()
        world.run(change)
        await program.beat.queues.aresume(BILLING_QUEUE)
        await trial.adrain()
        (job,) = await program.beat.jobs.alist(task=CHARGE)
        assert (job.state, job.attempt) == ("failed", 1)
        stored: Any = await program.beat.jobs.alist()
        messages = [each for each in stored if each.target.message]
        await program.beat.jobs.aretry(job.id)
        await trial.adrain()
        # Another job of the same bill, as a run by hand sends it.
        await program.billing.charge.asend(job.target.args[0])
        await trial.adrain()
        failed = await program.beat.jobs.alist(task=CHARGE)
        assert [each.state for each in failed] == ["failed", "failed"]
        stored = await program.beat.jobs.alist()
        assert len([each for each in stored if each.target.message]) == 1
    body = messages[0].target.message.body
    assert len(messages) == 1
    assert body["subscription_id"] == 1
    assert body["reason"]
    assert any(text in body["reason"] for text in why.split("|"))


async def test_s1_d10_a_gateway_that_is_away_is_no_failed_payment(world: World) -> None:
    """The bill is charged again each day."""
    choose(world, "stripe")
    customers(world, 1, stripe_id="cus_1")
    away: dict[str, Any] = {"stripe_url": "http://127.0.0.1:9", "queue_url": "amqp://127.0.0.1:9/"}
    async with on_trial(world, NEW_YEAR - timedelta(hours=1), paused=False, **away) as (
        trial,
        program,
    ):
        await trial.aadvance(timedelta(days=3))
        charges = await program.beat.jobs.alist(task=CHARGE)
        # A message would wait for the broker.
        waiting: Any = await program.beat.jobs.alist(state="waiting", limit=1_000)
    assert [job.state for job in charges] == ["failed"] * 3
    assert [job for job in waiting if job.target.message] == []


async def test_s1_d27_a_charge_that_waited_in_the_queue_has_its_days_from_then_on(
    world: World, jobs: str, stripe_server: StripeServer
) -> None:
    """No worker was there for 20 days; the owner of the card has 14 to act."""
    choose(world, "stripe")
    customers(world, 1, stripe_id=stripe_server.customer())
    world.card(1, 1, stripe_payment_method_id="pm_card_requiresAction")
    began = datetime.now(UTC)
    program = build(Config(database=world.url, stripe_url=stripe_server.url), Onbeat(jobs))
    charge, task = program.billing.charge, task_of(world, "MONTHLY:2020-01")
    async with program.beat:
        waited = await charge.options(run_at=began - timedelta(days=20)).asend(task)
        found = [await waited.aresult(30), await (await charge.asend(task)).aresult(30)]
    await program.aclose()
    assert [each and each.outcome for each in found] == ["pending", "pending"]
    ((created, last),) = world.rows(
        "SELECT c.created_at, i.last_attempted FROM charges c"
        " JOIN users_invoices i ON i.id = c.invoice_id"
    )
    assert began - timedelta(minutes=1) < created <= last


async def test_s1_d35_a_thousand_workspaces_on_a_pool_of_two(world: World, jobs: str) -> None:
    """Each is billed nothing, so no gateway is needed, and ends by a transaction of its own."""
    plan = customers(world, 1_000)
    world.run("UPDATE service_plans SET monthly_cost_cents = 0 WHERE id = ?", plan)
    program = build(Config(database=world.url, pool_max=2), Onbeat(jobs))
    async with program.beat:
        run = await program.billing.monthly.asend()
        assert (await run.aresult(60)).sent == 1_000
        await eventually_none(program, BILLING_QUEUE)
    await program.aclose()
    assert world.rows("SELECT status, source, count(*) FROM users_invoices GROUP BY 1, 2") == [
        ("COMPLETE", "SUBSCRIPTION", 1_000)
    ]


async def eventually_none(program: Program, name: str) -> None:
    """Of the queue no job is left; then it is not listed any more."""
    async with asyncio.timeout(90):
        while any(each.name == name for each in await program.beat.queues.alist()):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
