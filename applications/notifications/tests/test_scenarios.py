"""The scenarios of the system whose place it takes, on a virtual clock with a real mail server."""

import logging
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from notifications import app
from notifications.app import SOURCE
from notifications.topics import Text
from onbeat import Retry, cron
from receivers import Mails
from world import PAID, World

AT = datetime(2026, 11, 23, 9, tzinfo=UTC)
MAIL = "@notify:mail"


def test_s4_a01_an_event_is_sent_at_once(world: World, mails: Mails) -> None:
    world.topic()
    world.recipient("ada", "mail")
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {"order": 1}, id="e1")
        trial.drain()
        assert mails.texts("ada")[0].startswith("Paid: Dear Ada, thanks. http://127.0.0.1:8090/uns")
        (sent,) = trial.ran_of(MAIL)
        assert (sent.job.state, sent.job.attempt) == ("succeeded", 1)
        trial.advance("5s")
        assert world.outcomes() == [("ada", "mail", "sent", "")]


def test_s4_a02_a_delayed_one_is_not_sent_before(sqlite: World, mails: Mails) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        later = program.publish.options(run_at=AT + timedelta(seconds=2))
        job = later.send(PAID, {}, "e1")
        trial.advance("1999ms")
        assert mails.tried == 0
        trial.advance("1ms")
        assert mails.to == ["ada"]
        assert (job.info().state, program.beat.events.show("e1").source) == ("succeeded", SOURCE)


def test_s4_a03_a_busy_server_is_tried_again_after_growing_gaps(
    sqlite: World, mails: Mails
) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    mails.answers += ["451 busy", "451 still busy", "451 busy again"]
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, id="e1", data={})
        trial.advance("1h")
        tries = trial.ran_of(MAIL)
        gaps = [(b.at - a.at).total_seconds() for a, b in pairwise(tries)]
        assert gaps == [30, 60, 120]
        assert tries[-1].job.state == "succeeded"
        attempts = program.beat.jobs.get(tries[0].job.id).attempts
        assert attempts
        assert "451 busy again" in str(attempts[2].error)
    assert mails.to == ["ada"]
    assert sqlite.outcomes() == [("ada", "mail", "sent", "")]


def test_s4_a04_a_server_that_stays_busy_fails_the_notice_and_says_so(
    world: World, mails: Mails, caplog: pytest.LogCaptureFixture
) -> None:
    """With at most three retries there are four tries."""
    world.topic()
    world.recipient("ada", "mail")
    program = world.program(mails.port, attempts_max=4)
    mails.down = True
    with program.beat.testing(at=AT) as trial, caplog.at_level(logging.WARNING):
        program.beat.events.publish(PAID, {}, id="e1")
        trial.advance("1d")
        job = program.beat.jobs.get(trial.ran_of(MAIL)[0].job.id)
        assert (job.state, job.attempt, mails.tried) == ("failed", 4, 4)
        assert "451 busy" in (job.error or "")
    ((_, _, outcome, why),) = world.outcomes()
    assert (outcome, "451 busy" in why) == ("failed", True)
    assert "a notice failed" in caplog.text


def test_s4_a07_every_minute_there_is_one_without_drift(sqlite: World, mails: Mails) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        call = program.publish.call(PAID, {}, "minutes")
        program.beat.schedules.put("minutes", cron("* * * * *"), call)
        trial.advance("1h")
        sent = [ran.at for ran in trial.ran_of(MAIL)]
    assert sent == [AT + timedelta(minutes=n) for n in range(1, 61)]
    assert mails.to == 60 * ["ada"]


def test_s4_a08_what_is_not_wanted_any_more_is_not_sent_and_says_why(
    world: World, mails: Mails
) -> None:
    """Ada unsubscribes while her notice waits for the morning; Bob does not."""
    world.topic()
    for id in ("ada", "bob"):
        world.recipient(id, "mail", hours=("10:00-18:00",))
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {}, id="e1")
        trial.drain()
        assert world.outcomes("recipient", "outcome") == [("ada", "planned"), ("bob", "planned")]
        world.unsubscribe(program, "ada")
        trial.advance("2h")
        ends = {ran.job.labels["recipient"]: ran.job for ran in trial.ran_of(MAIL)}
        assert ends["ada"].state == "cancelled"
        assert "condition is false" in (ends["ada"].reason or "")
    assert mails.to == ["bob"]
    assert world.outcomes() == [
        ("ada", "mail", "skipped", "unsubscribed"),
        ("bob", "mail", "sent", ""),
    ]


def test_s4_a08_an_event_under_a_condition_that_is_false_is_not_published(
    sqlite: World, mails: Mails
) -> None:
    sqlite.topic()
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        weekend = "now.getDayOfWeek() in [0, 6]"
        job = program.publish.options(delay="10m", condition=weekend).send(PAID, {}, "e1")
        trial.advance("10m")
        assert (job.info().state, job.info().reason) == (
            "cancelled",
            f"condition is false: {weekend}",
        )
        assert list(program.beat.events.list(type=PAID)) == []
    assert mails.tried == 0


def test_s4_d04_a_code_is_not_sent_after_its_time(world: World, mails: Mails) -> None:
    """Its time counts from the event, however late the event is handled."""
    world.topic(good_for=120)
    world.recipient("ada", "mail", hours=("10:00-18:00",))
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {}, id="night")
        trial.advance("59m")
        program.beat.events.publish(PAID, {}, id="morning")
        trial.advance("2h")
    assert mails.to == ["ada"]
    late, sent = world.rows("SELECT outcome, why FROM notices ORDER BY event DESC")
    assert late == ("cancelled", "expired: it could not start in time")
    assert sent == ("sent", "")


@pytest.mark.parametrize(("late", "told"), [("4s", 1), ("20s", 0)])
def test_s4_d04_the_time_of_a_delayed_code_counts_from_when_it_was_due(
    world: World, mails: Mails, late: str, told: int
) -> None:
    """Nothing ran when it was due, so it is published late, which gives it no further time."""
    world.topic(good_for=5)
    world.recipient("ada", "mail")
    program = world.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        due = AT - timedelta(seconds=int(late[:-1]))
        program.publish.options(run_at=due).send(PAID, {}, "e1")
        trial.advance("1m")
        assert program.beat.events.show("e1").time == due
    assert len(mails.to) == told
    assert world.outcomes("outcome") == [("sent" if told else "cancelled",)]


def test_s4_d04_the_time_of_a_recurring_code_counts_from_its_occurrence(
    sqlite: World, mails: Mails
) -> None:
    sqlite.topic(good_for=5)
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        call = program.publish.call(PAID, {}, "hours")
        program.beat.schedules.put("hours", cron("0 * * * *"), call)
        program.beat.queues.pause("default")
        trial.advance("1h")
        trial.advance("20s")
        program.beat.queues.resume("default")
        trial.advance("10s")
    assert mails.tried == 0
    assert sqlite.outcomes("outcome") == [("cancelled",)]


@pytest.mark.parametrize("part", ["apublish", "next_portion"])
def test_s4_d04_another_attempt_gives_a_code_no_further_time(
    sqlite: World, mails: Mails, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first attempt that fails is tried again 2 s later."""
    sqlite.topic(good_for=1)
    sqlite.recipient("ada", "mail")
    monkeypatch.setattr(app, "RETRY", Retry(attempts_max=2, delay="2s", jitter=False))
    program = sqlite.program(mails.port)
    owner = app if part == "next_portion" else type(program.beat.events)
    work, failed = getattr(owner, part), list[str]()

    async def fail_once(*given: Any, **more: Any) -> Any:
        if not failed:
            failed.append(part)
            raise OSError(part)
        return await work(*given, **more)

    monkeypatch.setattr(owner, part, fail_once)
    with program.beat.testing(at=AT) as trial:
        program.publish.options(run_at=AT).send(PAID, {}, "e1")
        trial.advance("1m")
    assert (failed, mails.tried) == ([part], 0)
    assert sqlite.outcomes("outcome") == [("cancelled",)]


def test_s4_d09_a_sensitive_notice_is_not_shown(sqlite: World, mails: Mails) -> None:
    sqlite.topic(sensitive=True)
    sqlite.recipient("ada", "mail", hours=("10:00-18:00",))
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.beat.events.publish(PAID, {"code": "4711"}, id="e1")
        trial.drain()
        (job,) = (job for job in program.beat.jobs.list(queue="notices"))
        assert "4711" not in str(job)
        trial.advance("1h")
    assert mails.to == ["ada"]


def test_s4_d09_the_event_of_a_sensitive_topic_is_not_shown(sqlite: World, mails: Mails) -> None:
    """The notice has what the event does not show."""
    text = Text("Code", "{{ data.event.code }} {{ data.unsubscribe }}")
    sqlite.topic(sensitive=True, texts={"en": text})
    sqlite.recipient("ada", "mail")
    program = sqlite.program(mails.port)
    with program.beat.testing(at=AT) as trial:
        program.publish.options(delay="1m", sensitive=True).send(PAID, {"code": "4711"}, "e1")
        trial.advance("2m")
        assert "4711" not in str(program.beat.events.show("e1"))
        assert "4711" not in str(list(program.beat.events.list()))
    assert mails.texts("ada")[0].startswith("Code: 4711")
