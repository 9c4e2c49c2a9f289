"""Conditions, windows and sensitive payloads in Python."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onbeat import Condition, Context, Invalid, Onbeat, Retry, Task, cron, message
from onbeat.app.predicates import HANDLERS
from onbeat.model.limits import WINDOWS_MAX

AT = "2026-11-23T20:00Z"
OFFICE = "MON-FRI 09:00-18:00 Europe/Berlin"
OPENING = datetime(2026, 11, 24, 8, tzinfo=UTC)


def is_shop_open(context):
    return context.labels.get("shop") != "closed"


async def is_shop_open_async(context: Context) -> bool:
    return context.labels.get("shop") != "closed"


def gives_text(context: Context) -> str:
    return "yes"


class Program:
    def __init__(self) -> None:
        self.beat = Onbeat("memory://")
        self.trial = self.beat.testing(at=AT)

        @self.beat.task("work", retry=Retry(1))
        def work(number: int = 0) -> int:
            return number

        @self.beat.task("flag")
        def flag(name: str) -> dict[str, bool]:
            return {"enabled": name == "on"}

        self.work: Any = work
        self.flag: Any = flag

    def info(self, **options: Any) -> Any:
        job = self.work.options(**options).send(1)
        self.trial.drain()
        return job.info()


@pytest.fixture
def program():
    program = Program()
    with program.trial:
        yield program


@pytest.mark.parametrize("predicate", [is_shop_open, is_shop_open_async])
def test_a_function_is_a_condition(program, predicate):
    assert program.info(condition=predicate).state == "succeeded"
    held = program.info(condition=predicate, labels={"shop": "closed"})
    name = f"{__name__}.{predicate.__name__}"
    assert (held.state, held.reason) == ("cancelled", f"condition is false: {name}")
    assert held.condition.predicate == name


def test_a_function_that_gives_something_else(program):
    failed = program.info(condition=gives_text)
    assert failed.state == "failed"
    assert "its value is a text, which is not true or false" in failed.error


def test_a_predicate_is_no_task(program):
    program.info(condition=is_shop_open)
    assert not program.beat.backend.registry.tasks() & HANDLERS.keys()


def test_a_function_that_workers_cannot_find(program):
    with pytest.raises(Invalid, match="a function at the top of a module") as caught:
        program.work.options(condition=lambda context: True)
    assert caught.value.field == "condition"


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("job.task == 'work'", "succeeded"),
        ({"if": "job.task == 'other'"}, "cancelled"),
        (Condition("1 == 1"), "succeeded"),
    ],
)
def test_a_text_is_a_condition(program, condition, state):
    assert program.info(condition=condition).state == state


@pytest.mark.parametrize(("name", "state"), [("on", "succeeded"), ("off", "cancelled")])
def test_a_task_is_asked(program, name, state):
    asked = Condition("answer.enabled", ask=program.flag.call(name))
    assert program.info(condition=asked).state == state


def test_a_span_puts_off(program):
    asked = Condition("answer.enabled", ask=program.flag.call("off"), otherwise="5m")
    job = program.work.options(condition=asked, expires_in="12m").send(1)
    program.trial.drain()
    assert (job.info().state, job.info().attempt) == ("waiting", 0)
    program.trial.advance("13m")
    assert (job.info().state, job.info().reason) == (
        "cancelled",
        "expired: it could not start in time",
    )


@pytest.fixture
def put_off(program):
    """A program with a schedule, every day, whose jobs its condition puts off for up to 12m."""
    asked = Condition("answer.enabled", ask=program.flag.call("off"), otherwise="5m")
    program.beat.schedules.put(
        "s", cron("0 0 * * *"), program.work.call(1), condition=asked, expires_after="12m"
    )
    return program


def trigger(program):
    return [program.beat.schedules.trigger("s")]


def backfill(program):
    planned = {job.id for job in program.beat.jobs.list()}
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    program.beat.schedules.backfill("s", midnight - timedelta(days=1), midnight)
    return [job.id for job in program.beat.jobs.list() if job.id not in planned]


def look_at(program, ids):
    assert ids
    return [program.beat.jobs.get(id) for id in ids]


@pytest.mark.parametrize("make", [trigger, backfill])
def test_what_is_made_by_hand_is_given_up_where_its_condition_stays_false(put_off, make):
    ids = make(put_off)
    put_off.trial.drain()
    assert {(job.state, job.attempt) for job in look_at(put_off, ids)} == {("waiting", 0)}
    put_off.trial.advance("13m")
    assert {(job.state, job.reason) for job in look_at(put_off, ids)} == {
        ("cancelled", "expired: it could not start in time")
    }


@pytest.mark.parametrize("make", [trigger, backfill])
def test_what_is_made_by_hand_starts_however_late(put_off, make):
    put_off.beat.queues.pause("default")
    ids = make(put_off)
    put_off.trial.advance("1h")
    put_off.beat.schedules.update("s", condition=None)
    put_off.beat.queues.resume("default")
    put_off.trial.drain()
    assert {job.state for job in look_at(put_off, ids)} == {"succeeded"}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"condition": "foo"}, "condition.if"),
        ({"condition": Condition("true", otherwise="5m")}, "condition.else"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_when_it_is_sent(options, field):
    beat = Onbeat("memory://")
    work: Task[[], Any, None] = beat.task("work")(lambda: None)
    with beat, pytest.raises(Invalid) as caught:
        work.options(**options).send()
    assert caught.value.field == field


@pytest.mark.parametrize(
    "make",
    [
        lambda: Condition("true", ask=message("a", "b")),
        lambda: Condition("true", otherwise="0s"),
        lambda: Condition("true", otherwise="soon"),
    ],
)
def test_a_constructor_names_its_option(make):
    with pytest.raises(Invalid):
        make()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"condition": 3}, "condition"),
        ({"condition": {"iff": "true"}}, "condition"),
        ({"condition": ""}, "condition.if"),
        ({"window": "9-5"}, "window"),
        ({"window": {"from": "09:00"}}, "window"),
        ({"window": [OFFICE, "x"]}, "window[1]"),
        ({"window": [OFFICE] * (WINDOWS_MAX + 1)}, "window"),
        ({"sensitive": "yes"}, "sensitive"),
    ],
)
def test_an_option_that_cannot_be(program, options, field):
    with pytest.raises(Invalid) as caught:
        program.work.options(**options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "window",
    [
        OFFICE,
        [OFFICE] * WINDOWS_MAX,
        {"days": "MON-FRI", "from": "09:00", "to": "18:00", "timezone": "Europe/Berlin"},
    ],
)
def test_a_window_moves_the_due_time(program, window):
    assert program.info(window=window).run_at == OPENING


def test_a_schedule_has_them_too(program):
    beat = program.beat
    policies: Any = {"condition": is_shop_open, "window": OFFICE, "sensitive": True}
    for _ in range(2):
        beat.schedules.put("nightly", cron("0 3 * * *", tz="UTC"), program.work.call(7), **policies)
    shown = beat.schedules.get("nightly")
    assert shown.condition.predicate.endswith("is_shop_open")
    assert (shown.window[0].start, shown.sensitive) == ("09:00", True)
    (job,) = beat.jobs.list()
    assert (job.run_at, job.target.args) == (OPENING, ["…"])
    program.trial.advance("13h")
    assert beat.jobs.get(job.id).state == "succeeded"


def test_options_of_a_task_are_those_of_its_jobs(program):
    @program.beat.task("later", window=OFFICE, condition="job.task == 'later'", sensitive=True)
    def later() -> int:
        return 1

    job = later.send()
    assert job.info().run_at == OPENING
    program.trial.advance("13h")
    assert (job.info().state, job.info().result) == ("succeeded", "…")
