"""Purchases that came to nothing, and payments that are told late."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from credits.app import CLEAN_UP, build
from credits.purchases import Payment
from world import World, stamp

NOON = datetime(2025, 11, 18, 12, tzinfo=UTC)
MIDNIGHT = datetime(2025, 11, 19, tzinfo=UTC)


def purchase(world: World, id: str, status: str, age_days: float) -> None:
    made = stamp(MIDNIGHT - timedelta(days=age_days))
    world.run(
        "INSERT INTO credit_purchases (id, user_id, credits, amount_paid, stripe_session_id, status,"
        " created_at, updated_at) VALUES (?, 'a', 50, 500, ?, ?, ?, ?)",
        id,
        f"cs_{id}",
        status,
        made,
        made,
    )


def purchases(world: World) -> list[tuple[str, str]]:
    return [
        (id, status)
        for id, status in world.rows("SELECT id, status FROM credit_purchases ORDER BY id")
    ]


def cleaned_up(world: World) -> int:
    """What one run of the schedule says that it has deleted."""
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        trial.drain()
        trial.advance_to(MIDNIGHT)
        trial.assert_ran(CLEAN_UP, times=1)
        job = program.beat.jobs.list(task=CLEAN_UP, state="succeeded")[0]
        return int(job.to_dict()["result"])


def pay(world: World, payment: Payment) -> str:
    """The state of the job that books it."""
    program = build(world.config)
    with program.beat.testing(at=NOON) as trial:
        job = program.book_payment.send(payment)
        trial.drain()
        return str(job.info().state)


def test_s5_a11_old_pending_and_failed_purchases_go_and_others_stay(world: World) -> None:
    purchase(world, "pending-8d", "pending", 8)
    purchase(world, "failed-15d", "failed", 15)
    purchase(world, "pending-3d", "pending", 3)
    purchase(world, "completed-20d", "completed", 20)
    purchase(world, "cancelled-20d", "cancelled", 20)
    purchase(world, "pending-6.5d", "pending", 6.5)
    purchase(world, "pending-7.5d", "pending", 7.5)
    assert cleaned_up(world) == 3
    assert [id for id, _ in purchases(world)] == [
        "cancelled-20d",
        "completed-20d",
        "pending-3d",
        "pending-6.5d",
    ]


def test_cleaning_up_again_and_an_empty_table_are_fine(world: World) -> None:
    assert cleaned_up(world) == 0
    purchase(world, "old", "failed", 8)
    assert [cleaned_up(world), cleaned_up(world)] == [1, 0]


def test_the_age_of_a_stale_purchase_is_strict(world: World) -> None:
    purchase(world, "exactly", "pending", 7)
    assert cleaned_up(world) == 0


def test_s5_d29_no_purchase_goes_while_its_payment_may_be_on_the_way(world: World) -> None:
    world.config = replace(world.config, checkout=timedelta(days=10))
    purchase(world, "checkout-is-open", "pending", 12.5)
    purchase(world, "event-is-late", "pending", 13.5)
    assert cleaned_up(world) == 1
    assert purchases(world) == [("checkout-is-open", "pending")]


PAID = Payment(session="cs_late", payment="pi_1", user="a", credits=50, cents=500)


def test_s5_d29_a_late_payment_makes_its_purchase_again(world: World) -> None:
    world.user("a", 10, paid=5)
    purchase(world, "late", "pending", 8)
    cleaned_up(world)
    assert purchases(world) == []
    assert pay(world, PAID) == "succeeded"
    assert [status for _, status in purchases(world)] == ["completed"]
    assert world.rows("SELECT paid_credits FROM users") == [(55,)]
    assert world.audits() == [("a", 50, "Purchase: 50 credits")]


def test_a_payment_that_is_told_twice_is_booked_once(world: World) -> None:
    world.user("a", 10)
    purchase(world, "late", "pending", 1)
    assert [pay(world, PAID), pay(world, PAID)] == ["succeeded", "succeeded"]
    assert purchases(world) == [("late", "completed")]
    assert world.rows("SELECT paid_credits FROM users") == [(50,)]
    assert len(world.audits()) == 1


@pytest.mark.parametrize("status", ["cancelled", "refunded", "failed", "pending"])
def test_a_payment_that_is_told_again_after_a_refund_gives_nothing(
    world: World, status: str
) -> None:
    """Nor where the purchase has become old since."""
    world.user("a", 10)
    purchase(world, "late", "pending", 20)
    assert pay(world, PAID) == "succeeded"
    world.run("UPDATE credit_purchases SET status = ?", status)
    assert cleaned_up(world) == 0
    assert pay(world, PAID) == "succeeded"
    assert purchases(world) == [("late", status)]
    assert world.rows("SELECT paid_credits FROM users") == [(50,)]
    assert len(world.audits()) == 1


def test_a_payment_of_nobody_fails_and_leaves_nothing(world: World) -> None:
    assert pay(world, PAID) == "failed"
    assert (purchases(world), world.audits()) == ([], [])
