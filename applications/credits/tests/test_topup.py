"""Free credits each month."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from credits.app import TOP_UP, build
from credits.status import status_of
from credits.topup import Portion, ToppedUp, is_done, month_of, next_portion, top_up
from world import World, stamp

AUGUST = datetime(2024, 8, 31, 12, tzinfo=UTC)
SEPTEMBER = datetime(2024, 9, 1, tzinfo=UTC)


def run(world: World, begin: datetime, end: datetime) -> None:
    """Let the program run from `begin` to `end`."""
    with build(world.config).beat.testing(at=begin) as trial:
        trial.drain()
        trial.advance_to(end)
        assert [ran for ran in trial.ran if ran.job.state != "succeeded"] == []


def trigger(world: World, at: datetime) -> None:
    """What an operator does by hand in the middle of a month."""
    program = build(world.config)
    with program.beat.testing(at=at) as trial:
        trial.drain()
        program.beat.schedules.trigger(TOP_UP)
        trial.drain()
        trial.assert_ran(TOP_UP, times=1)
        assert [ran for ran in trial.ran if ran.job.state != "succeeded"] == []


def test_s5_a08_users_are_topped_up_to_their_own_limits(world: World) -> None:
    world.user("a", 3)
    world.user("b", 5)
    world.user("educator", 12, limit=25, paid=4)
    run(world, AUGUST, SEPTEMBER)
    assert world.free() == {"a": 10, "b": 10, "educator": 25}
    assert world.audits() == [
        ("a", 7, "Monthly free credit top-up: topped up to 10"),
        ("b", 5, "Monthly free credit top-up: topped up to 10"),
        ("educator", 13, "Monthly free credit top-up: topped up to 25"),
    ]
    assert world.rows("SELECT paid_credits FROM users WHERE id = 'educator'") == [(4,)]


def test_s5_a09_a_second_top_up_in_the_month_changes_nothing(world: World) -> None:
    world.user("a", 3)
    world.user("educator", 12, limit=25)
    run(world, AUGUST, SEPTEMBER)
    world.spend("a", 4)
    before = world.free(), world.audits()
    trigger(world, SEPTEMBER + timedelta(days=15))
    assert (world.free(), world.audits()) == before


def test_s5_a10_users_at_their_limit_are_left_alone(world: World) -> None:
    world.user("a", 10)
    world.user("above", 12)
    world.user("educator", 25, limit=25)
    run(world, AUGUST, SEPTEMBER)
    assert world.free() == {"a": 10, "above": 12, "educator": 25}
    assert world.audits() == []


def test_s5_d12_the_month_is_that_of_the_zone(world: World) -> None:
    """East of UTC the first begins in the month before, west of it the last evening is in the next."""
    at = datetime(2024, 8, 31, 12, 30, tzinfo=UTC)
    assert month_of(at, "Pacific/Auckland").name == "2024-09"
    assert month_of(at + timedelta(hours=14), "America/Los_Angeles").name == "2024-08"
    world.config = replace(world.config, zone="Pacific/Auckland")
    world.user("a", 3)
    run(world, AUGUST - timedelta(days=1), AUGUST)
    world.spend("a", 4)
    trigger(world, SEPTEMBER + timedelta(days=28))
    assert world.free() == {"a": 6}
    run(world, SEPTEMBER + timedelta(days=29), SEPTEMBER + timedelta(days=30))
    assert world.free() == {"a": 10}
    assert [credits for _, credits, _ in world.audits()] == [7, 4]


@pytest.mark.parametrize("zone", ["America/Santiago", "Africa/Cairo", "Pacific/Apia"])
def test_months_of_a_zone_follow_each_other(zone: str) -> None:
    months = [month_of(datetime(2011, 12, 15, tzinfo=UTC), zone)]
    for _ in range(240):
        months.append(month_of(months[-1].end, zone))
    assert all(one.end == other.begin for one, other in pairwise(months))
    assert len({month.name for month in months}) == 241
    assert all(month.begin < month.end for month in months)


def refuse(world: World, user: str) -> None:
    """No credits of this user can be written until the trigger `refuse` is dropped."""
    if world.database.kind == "mysql":
        when = f"FOR EACH ROW BEGIN IF OLD.id = '{user}' THEN SIGNAL SQLSTATE '45000'"
        when += " SET MESSAGE_TEXT = 'refused'; END IF; END"
    else:
        when = f"WHEN OLD.id = '{user}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
    world.run(f"CREATE TRIGGER refuse BEFORE UPDATE ON users {when}")


def test_s5_d13_a_portion_that_fails_is_told_and_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user's credits cannot be written; those of others are. Later the portion is retried."""
    monkeypatch.setattr(next_portion, "__defaults__", (2,))
    for id in "abcdef":
        world.user(id, 3)
    refuse(world, "c")
    program = build(world.config)
    with program.beat.testing(at=AUGUST) as trial:
        trial.drain()
        trial.advance_to(SEPTEMBER + timedelta(minutes=1))
        assert world.free() == {"a": 10, "b": 10, "c": 3, "d": 3, "e": 10, "f": 10}
        (failed,) = program.beat.jobs.list(state="failed")
        assert failed.attempt == 3
        assert "refused" in (failed.error or "")
        tries = [ran.at - SEPTEMBER for ran in trial.ran if ran.job.id == failed.id]
        assert tries == [timedelta(0), timedelta(seconds=2), timedelta(seconds=6)]
        world.run("DROP TRIGGER refuse")
        world.spend("a", 9)
        program.beat.jobs.retry(failed.id)
        trial.drain()
    assert world.free() == {"a": 1, "b": 10, "c": 10, "d": 10, "e": 10, "f": 10}
    assert [user for user, _, _ in world.audits()] == list("abcdef")


@pytest.mark.parametrize("user", ["a", "c", "f"])
def test_s5_d13_a_month_is_done_when_each_portion_is(
    world: World, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first portion fails, one in the middle, or the last. A run by hand makes up for it."""
    monkeypatch.setattr(next_portion, "__defaults__", (2,))
    for id in "abcdef":
        world.user(id, 3)
    refuse(world, user)
    program = build(world.config)
    with program.beat.testing(at=AUGUST) as trial:
        trial.drain()
        trial.advance_to(SEPTEMBER + timedelta(minutes=1))
        status = world.finish(status_of(program, SEPTEMBER))
        assert (status.month.done, status.month.users) == (False, 4)
        world.run("DROP TRIGGER refuse")
        for id in "abcdef":
            world.spend(id, 2)
        program.beat.schedules.trigger(TOP_UP)
        trial.drain()
        status = world.finish(status_of(program, SEPTEMBER))
        assert (status.month.done, status.month.users) == (True, 6)
        free = world.free()
        assert sorted(free.values()) == [8, 8, 8, 8, 10, 10]
        assert free[user] == 10
        program.beat.schedules.trigger(TOP_UP)
        trial.drain()
    assert world.free() == free


def test_s5_d14_a_month_in_which_nobody_wanted_credits_is_done(world: World) -> None:
    world.user("a", 10)
    run(world, AUGUST, SEPTEMBER)
    world.spend("a", 10)
    trigger(world, SEPTEMBER + timedelta(days=3))
    assert world.free() == {"a": 0}
    assert world.audits() == []


async def test_s5_d15_a_user_who_spends_meanwhile_gets_what_the_audit_says(world: World) -> None:
    """Spends race with a top-up; in the end credits given and spent add up."""
    world.users(30 * [5])
    month = month_of(SEPTEMBER, "UTC")

    async def spend(user: str) -> None:
        async with world.database.session() as session:
            await session.run("UPDATE users SET free_credits = free_credits - 1 WHERE id = ?", user)

    async def give() -> None:
        async with world.database.session() as session:
            await top_up(session, month, Portion("", "u999", final=True), SEPTEMBER)

    spends = [spend(f"u{number:03}") for number in range(30)]
    await asyncio.gather(*spends[:15], give(), *spends[15:])
    audits = {user: credits for user, credits, _ in world.audits()}
    assert world.free() == {user: 5 - 1 + credits for user, credits in audits.items()}
    assert len(audits) == 30


def test_s5_d16_any_limit_and_a_negative_balance_are_topped_up(world: World) -> None:
    world.user("in-no-tier", 3, limit=37)
    world.user("in-debt", -4)
    world.user("nothing", 0, limit=0)
    run(world, AUGUST, SEPTEMBER)
    assert world.free() == {"in-no-tier": 37, "in-debt": 10, "nothing": 0}
    assert [credits for _, credits, _ in world.audits()] == [14, 34]


def test_s5_d17_statements_do_not_grow_with_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_portion, "__defaults__", (100,))
    world.users(range(250), limit=1_000_000)
    program = build(world.config)
    with program.beat.testing(at=AUGUST) as trial:
        trial.drain()
        trial.advance_to(SEPTEMBER)
        trial.assert_ran("credits.top_up_portion", times=3)
    assert set(world.free().values()) == {1_000_000}


def test_s5_d18_a_stop_is_no_success(world: World) -> None:
    """The task is stopped before its first statement; a later attempt does all."""
    world.user("a", 3)
    program = build(world.config)
    with program.beat.testing(at=AUGUST) as trial:
        trial.drain()
        id = program.beat.schedules.trigger(TOP_UP)
        program.beat.jobs.cancel(id, "by hand")
        trial.drain()
        job = program.beat.jobs.get(id)
    assert (job.state, job.reason) == ("cancelled", "by hand")
    assert world.free() == {"a": 3}


def test_a_top_up_of_the_old_system_counts(world: World) -> None:
    """On the day of the change-over nobody gets the month's credits again."""
    world.user("a", 3)
    world.user("b", 3)
    world.run(
        "INSERT INTO credit_adjustments (id, created_at, user_id, credits, reason)"
        " VALUES ('1', ?, 'a', 7, ?)",
        stamp(SEPTEMBER)[:19],
        "Monthly free credit top-up: topped up to 10",
    )
    trigger(world, SEPTEMBER + timedelta(days=10))
    assert world.free() == {"a": 3, "b": 10}


def test_who_signs_up_in_a_month_that_is_done_waits_for_the_next(world: World) -> None:
    run(world, AUGUST, SEPTEMBER)
    world.user("a", 10)
    run(world, AUGUST, SEPTEMBER)
    world.user("b", 3)
    trigger(world, SEPTEMBER + timedelta(days=1))
    assert world.free() == {"a": 10, "b": 3}


async def test_portions_with_other_bounds_give_nothing_twice(world: World) -> None:
    for id in "abcd":
        world.user(id, 10 if id == "b" else 3)
    month = month_of(SEPTEMBER, "UTC")
    async with world.database.session() as session:
        await top_up(session, month, Portion("", "c", final=False), SEPTEMBER)
        for id in "abc":
            world.spend(id, 2)
        result = await top_up(session, month, Portion("a", "d", final=True), SEPTEMBER)
    assert result == ToppedUp(users=1, credits=7)
    assert world.free() == {"a": 8, "b": 8, "c": 8, "d": 10}


async def test_portions_that_are_repeated_up_to_later_users_leave_no_gap(world: World) -> None:
    """Users have gone since the portion in the middle failed, so that bounds are others now."""
    for id in "abcdefg":
        world.user(id, 3)
    month = month_of(SEPTEMBER, "UTC")
    async with world.database.session() as session:
        for portion in (Portion("", "b", final=False), Portion("d", "g", final=True)):
            await top_up(session, month, portion, SEPTEMBER)
        assert not await is_done(session, month.name)
        await top_up(session, month, Portion("", "c", final=False), SEPTEMBER)
        assert not await is_done(session, month.name)
        await top_up(session, month, Portion("c", "e", final=False), SEPTEMBER)
        assert await is_done(session, month.name)
        assert not await is_done(session, "2024-10")
    assert set(world.free().values()) == {10}
    rows = world.rows("SELECT sum(users), sum(credits) FROM credit_topup_portions")
    assert [tuple(map(int, row)) for row in rows] == [(7, 49)]
