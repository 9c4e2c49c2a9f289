"""Mails: each once for its cause, by the real API of a local server, jobs and rows on MariaDB."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

import mail_victim
from backoffice import mails
from backoffice.database import Database, Session
from backoffice.mails import MailApi, add_mails, selections
from backoffice.mails.dispatch import Later, pause_of
from backoffice.mails.selections import share_of
from onbeat import Fail, Onbeat, Retry, Snooze
from outside import MAIL_KEY, PATIENCE, MailServer, eventually
from world import World, mariadb

AT = datetime(2026, 10, 20, 9, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
ENDS = {"succeeded", "failed", "cancelled"}


@pytest.fixture(scope="module")
def jobs() -> Iterator[str]:
    """The URL of a schema for jobs."""
    with mariadb() as url:
        yield url


@pytest.fixture
def api() -> Iterator[MailServer]:
    with MailServer() as result:
        yield result


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tries, one right after the other."""
    monkeypatch.setattr(mails, "RETRY", Retry(4, delay="20ms", backoff="fixed", jitter=False))


async def credits_left(session: Session, workspace: int) -> int:
    """The credits without the debits, as in a provider without invoices."""
    row = await session.row(
        "SELECT (SELECT coalesce(sum(cents), 0) FROM users_credits WHERE workspace_id = ?)"
        " - (SELECT coalesce(sum(cents), 0) FROM users_debits WHERE workspace_id = ?)",
        workspace,
        workspace,
    )
    assert row is not None
    return int(row[0])


@dataclass(frozen=True)
class Ended:
    """A job, as it has ended."""

    id: str
    state: str
    result: object
    attempt: int
    error: str | None


class Program:
    """The mails as they run."""

    def __init__(self, beat: Onbeat, world: World, api: MailServer, zone: str) -> None:
        self.beat = beat
        self.database = Database(world.url)
        address = MailApi(url=f"{api.url}/api/sendEmail", key=MAIL_KEY)
        self.selections = add_mails(beat, self.database, address, zone, credits_left)

        self.seen: set[str] = set()

    async def run(self, kind: str, at: datetime = AT) -> list[Ended]:
        """Select, and await the end of all mails; their jobs, the first sent first."""
        selection = await self.selections[kind].asend(at)
        await selection.aresult(timeout=PATIENCE)
        return await self.ended()

    async def ended(self) -> list[Ended]:
        """The jobs that send mails, when all have ended; each once."""

        async def found() -> Any:
            jobs = await self.beat.jobs.alist(queue=mails.QUEUE)
            return jobs if all(job.state in ENDS for job in jobs) else None

        new = [job for job in await eventually(found) if job.id not in self.seen]
        self.seen |= {job.id for job in new}
        return [
            Ended(job.id, str(job.state), job.result, job.attempt, job.error) for job in new[::-1]
        ]


@asynccontextmanager
async def running(
    jobs: str, world: World, api: MailServer, zone: str = "UTC"
) -> AsyncIterator[Program]:
    program = Program(Onbeat(jobs), world, api, zone)
    try:
        async with program.beat:
            await program.ended()
            yield program
    finally:
        await program.database.close()


def ada(world: World, **workspace: object) -> tuple[int, int]:
    """A user and the user's workspace, which gets no mail but for what is given."""
    user = world.user(username="ada", first_name="Ada", last_name="Lovelace")
    given = {"created_at": AT, "sent_satisfaction_survey": 1, **workspace}
    return user, world.workspace(user, 1, plan="starter", **given)


async def test_s1_42_inactivity_after_14_days_once(
    jobs: str, world: World, api: MailServer
) -> None:
    """S1-D32: only who is inactive gets it, and only that user is marked."""
    user, workspace = ada(world)
    world.run("UPDATE users SET last_login = ?", AT - 14 * DAY)
    late = world.user("late@example.com", last_login=AT - 14 * DAY + SECOND)
    world.workspace(late, created_at=AT)
    world.user("no-creator@example.com", last_login=AT - 90 * DAY)
    reminded = world.user("done@example.com", last_login=AT - 90 * DAY, last_login_reminded=AT)
    world.workspace(reminded, created_at=AT)
    async with running(jobs, world, api) as program:
        (job,) = await program.run("inactive_user")
        assert (job.state, job.result) == ("succeeded", "sent")
        assert await program.run("inactive_user") == []
    assert world.rows("SELECT id FROM users WHERE last_login_reminded = ? ORDER BY id", AT) == [
        (user,),
        (reminded,),
    ]
    ((key, body),) = api.mails.items()
    assert key == f"inactive:{user}"
    assert body == {
        "args": {},
        "user": {
            "id": user,
            "username": "ada",
            "first_name": "Ada",
            "last_name": "Lovelace",
            "email": "ada@example.com",
        },
        "email_type": "inactive_user",
        "subject": "Account Inactivity",
        "to": "ada@example.com",
        "workspace": {"id": workspace, "name": "Ada's", "creator_id": user, "plan": "starter"},
    }


async def test_s1_43_usage_at_the_percentage_once_for_a_trigger(
    jobs: str, world: World, api: MailServer
) -> None:
    user, workspace = ada(world)
    world.add("users_credits", cents=1_001, workspace_id=workspace, created_at=AT)
    half = world.add("usage_triggers", workspace_id=workspace, percentage=50)
    tenth = world.add("usage_triggers", workspace_id=workspace, percentage=10)
    _, without_credits = ada(world)
    world.add("usage_triggers", workspace_id=without_credits, percentage=50)

    def use(cents: int) -> None:
        world.add(
            "users_debits",
            source="CALL",
            status="INCOMPLETE",
            cents=cents,
            module_id=1,
            user_id=user,
            workspace_id=workspace,
            created_at=AT,
        )

    async with running(jobs, world, api) as program:
        use(499)  # 502 are left, and 50 % are 501
        assert await program.run("usage_trigger") == []
        use(1)
        (job,) = await program.run("usage_trigger")
        assert job.result == "sent"
        assert await program.run("usage_trigger") == []
        use(401)
        assert len(await program.run("usage_trigger")) == 1
    assert [(mail["subject"], mail["args"]) for mail in api.mails.values()] == [
        ("Usage Trigger Alert", {"triggerPercent": "50", "triggerBalance": "501"}),
        ("Usage Trigger Alert", {"triggerPercent": "10", "triggerBalance": "100"}),
    ]
    assert world.rows(
        "SELECT usage_trigger_id, created_at FROM usage_triggers_results ORDER BY id"
    ) == [(half, AT), (tenth, AT)]


@pytest.mark.parametrize(
    ("cents", "percentage", "share"), [(1_001, 50, 501), (999, 50, 500), (99, 1, 1), (49, 1, 0)]
)
def test_the_share_of_a_trigger_is_rounded_half_up(cents: int, percentage: int, share: int) -> None:
    assert share_of(cents, percentage) == share


async def test_s1_44_a_free_trial_that_ends_after_7_days_once(
    jobs: str, world: World, api: MailServer
) -> None:
    _, workspace = ada(world, free_trial_started=AT - 7 * DAY)
    _, late = ada(world, free_trial_started=AT - 7 * DAY + SECOND)
    ada(world)
    ada(world, free_trial_started=AT - 90 * DAY, free_trial_reminder_sent=1)
    async with running(jobs, world, api) as program:
        (job,) = await program.run("free_trial_expiring")
        assert job.result == "sent"
        assert await program.run("free_trial_expiring") == []
        assert len(await program.run("free_trial_expiring", AT + SECOND)) == 1
    assert list(api.mails) == [
        f"trial:{workspace}:2026-10-13T09:00:00.000000Z",
        f"trial:{late}:2026-10-13T09:00:01.000000Z",
    ]
    assert {mail["subject"] for mail in api.mails.values()} == {"Free trial is ending"}


async def test_s1_a15_a_card_that_expires_next_month_has_one_mail(
    jobs: str, world: World, api: MailServer
) -> None:
    """S1-45: a run of December sees January; others are not due, or have had their mail."""
    user, workspace = ada(world)
    card = world.card(workspace, user, exp_month=1, exp_year=2027, last_4="4444")
    world.card(workspace, user, exp_month=12, exp_year=2026)
    world.card(workspace, user, exp_month=2, exp_year=2027)
    world.card(workspace, user, exp_month=1, exp_year=2026)
    december = datetime(2026, 12, 3, 9, tzinfo=UTC)
    async with running(jobs, world, api) as program:
        (job,) = await program.run("card_expiring", december)
        assert job.result == "sent"
        assert await program.run("card_expiring", december + DAY) == []
        assert len(await program.run("card_expiring", datetime(2027, 1, 1, tzinfo=UTC))) == 1
    mail, other = api.mails.values()
    assert (mail["subject"], mail["to"]) == ("Card expiring soon", "ada@example.com")
    assert mail["args"] == {"ending_digits": "4444", "days": "32"}
    assert other["args"] == {"ending_digits": "4242", "days": "32"}
    assert world.rows("SELECT expiry_reminded FROM users_cards WHERE id = ?", card) == [
        ("2027-01",)
    ]


async def test_s1_45_the_month_of_a_card_is_that_of_the_zone(
    jobs: str, world: World, api: MailServer
) -> None:
    user, workspace = ada(world)
    world.card(workspace, user, exp_month=1, exp_year=2027)
    async with running(jobs, world, api, "Pacific/Auckland") as program:
        assert await program.run("card_expiring", datetime(2026, 11, 30, 10, tzinfo=UTC)) == []
        assert len(await program.run("card_expiring", datetime(2026, 11, 30, 11, tzinfo=UTC))) == 1


async def test_s1_46_a_survey_after_7_full_days_once(
    jobs: str, world: World, api: MailServer
) -> None:
    _, workspace = ada(world, created_at=AT - 7 * DAY, sent_satisfaction_survey=0)
    ada(world, created_at=AT - 7 * DAY + SECOND, sent_satisfaction_survey=0)
    async with running(jobs, world, api) as program:
        (job,) = await program.run("customer_satisfaction_survey")
        assert job.result == "sent"
        assert await program.run("customer_satisfaction_survey") == []
    assert list(api.mails) == [f"survey:{workspace}"]
    assert world.rows(
        "SELECT id FROM workspaces WHERE sent_satisfaction_survey = 1 AND created_at < ?", AT - DAY
    ) == [(workspace,)]


async def test_s1_47_s1_d34_a_flag_is_set_only_after_the_mail_was_taken(
    jobs: str, world: World, api: MailServer
) -> None:
    """The API fails, is too busy, and then takes it. The flag is not set before."""
    flags: list[int] = []
    ada(world, free_trial_started=AT - 7 * DAY)

    def flag() -> int:
        ((sent,),) = world.rows("SELECT free_trial_reminder_sent FROM workspaces")
        return int(sent)

    api.on_post = lambda: flags.append(flag())
    api.answers = [
        web.Response(status=503),
        web.Response(status=408),
        web.Response(status=429, headers={"Retry-After": "1"}),
    ]
    async with running(jobs, world, api) as program:
        (job,) = await program.run("free_trial_expiring")
    assert (job.state, job.result, job.attempt) == ("succeeded", "sent", 3)
    assert flags == [0, 0, 0, 0]
    assert flag() == 1
    assert len({headers["Idempotency-Key"] for headers in api.posts}) == 1
    assert {headers["X-Lineblocs-Key"] for headers in api.posts} == {MAIL_KEY}


async def test_s1_d34_a_mail_that_is_refused_fails_at_once_with_the_reason(
    jobs: str, world: World, api: MailServer
) -> None:
    ada(world, free_trial_started=AT - 7 * DAY)
    api.answers = [web.Response(status=422, text=f"no such template for {MAIL_KEY}")]
    async with running(jobs, world, api) as program:
        (job,) = await program.run("free_trial_expiring")
        assert (job.state, job.attempt) == ("failed", 1)
        assert "the mail API answered 422: no such template for …" in str(job.error)
        assert await program.run("free_trial_expiring") == [], "its cause is taken for a month"
        api.answers = []
        await program.beat.jobs.aretry(job.id)
        program.seen.clear()
        assert (await program.ended())[-1].state == "succeeded"
    assert world.rows("SELECT free_trial_reminder_sent FROM workspaces") == [(1,)]


async def test_an_api_that_never_answers_uses_up_the_attempts(
    jobs: str, world: World, api: MailServer
) -> None:
    ada(world, free_trial_started=AT - 7 * DAY)
    api.answers = [web.Response(status=500) for _ in range(4)]
    async with running(jobs, world, api) as program:
        (job,) = await program.run("free_trial_expiring")
    assert (job.state, job.attempt) == ("failed", 4)
    assert world.rows("SELECT free_trial_reminder_sent FROM workspaces") == [(0,)]
    assert api.mails == {}


async def test_what_is_not_wanted_any_more_is_not_sent(
    jobs: str, world: World, api: MailServer
) -> None:
    """The user logs in while the mail waits."""
    ada(world)
    world.run("UPDATE users SET last_login = ?", AT - 30 * DAY)
    async with running(jobs, world, api) as program:
        await program.beat.queues.apause(mails.QUEUE)
        await (await program.selections["inactive_user"].asend(AT)).aresult(timeout=PATIENCE)
        world.run("UPDATE users SET last_login = ?", AT)
        await program.beat.queues.aresume(mails.QUEUE)
        (job,) = await program.ended()
    assert job.result == "not wanted any more"
    assert api.posts == []


async def test_s1_d40_a_selection_goes_page_by_page(
    jobs: str, world: World, api: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one instant lie on both sides of a page's end."""
    monkeypatch.setattr(selections, "PORTION", 3)
    for _ in range(8):
        ada(world, free_trial_started=AT - 8 * DAY)
    async with running(jobs, world, api) as program:
        assert len(await program.run("free_trial_expiring")) == 8
    assert len(api.mails) == 8


async def test_secrets_of_the_mail_api_are_shown_nowhere(
    jobs: str, world: World, api: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ada(world, free_trial_started=AT - 7 * DAY)
    api.answers = [web.Response(status=500), web.Response(status=400, text=f"key {MAIL_KEY}?")]
    async with running(jobs, world, api) as program:
        (job,) = await program.run("free_trial_expiring")
        shown = f"{await program.beat.jobs.aget(job.id)} {caplog.text}"
    assert "answered 400: key …?" in shown
    assert MAIL_KEY not in shown
    assert MAIL_KEY not in repr(MailApi(url=api.url, key=MAIL_KEY))


def test_a_mail_is_not_put_off_for_ever() -> None:
    busy = Later("busy", 60.0)
    with pytest.raises(Snooze):
        mails.check(busy, may_wait=True)
    with pytest.raises(Fail) as ended:
        mails.check(busy, may_wait=False)
    assert ended.value.retryable is False


async def test_a_process_killed_between_the_answer_and_the_commit_sends_no_second_mail(
    jobs: str, world: World, api: MailServer
) -> None:
    """SIGKILL at that point: the mail is posted again, under the key that the API knows."""
    ada(world, free_trial_started=AT - 7 * DAY)
    arguments = (jobs, world.url, f"{api.url}/api/sendEmail", AT.isoformat())
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        mail_victim.__file__,
        *arguments,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == -signal.SIGKILL
    assert (len(api.posts), len(api.mails)) == (1, 1)
    assert world.rows("SELECT free_trial_reminder_sent FROM workspaces") == [(0,)]
    program = Program(Onbeat(jobs), world, api, "UTC")
    try:
        async with program.beat:
            jobs_ended = await program.ended()
    finally:
        await program.database.close()
    assert "succeeded" in {job.state for job in jobs_ended}
    assert world.rows("SELECT free_trial_reminder_sent FROM workspaces") == [(1,)]
    assert (len(api.posts), len(api.mails)) == (2, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        ("0", 1),
        ("999999", 3_600),
        ("Tue, 20 Oct 2026 09:01:00 GMT", 60),
        ("Tue, 20 Oct 2026 08:00:00 GMT", 1),
        ("Tue, 20 Oct 2026 09:01:00 -0000", 60),
        ("soon", None),
        ("9" * 400, None),
        ("", None),
        (None, None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 99999999999999999999 Jan 2027 00:00:00 GMT", None),
    ],
)
def test_a_pause_is_a_number_or_a_date_within_bounds(text: str | None, seconds: int | None) -> None:
    assert pause_of(text, AT) == seconds
