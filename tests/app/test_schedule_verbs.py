"""What the verbs of schedules mean, on a store and on a service alike."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onbeat import Call, Invalid, NotFound, Onbeat, Retry, cron, daily, every, http
from onbeat.types import OccurrenceOutcome, Policies

CALL = http("POST", "https://example.com/close")
NIGHTLY = daily("03:00", tz="Europe/Berlin")


@pytest.fixture(params=["store", "service"])
async def beat(request: pytest.FixtureRequest, service: str) -> Any:
    one = Onbeat("memory://") if request.param == "store" else Onbeat(service)
    yield one
    await one.aclose()
    one.backend.portal.close()


@pytest.fixture
async def books(beat: Onbeat) -> str:
    full: Policies = {
        "overlap": "skip",
        "grace": "1h",
        "jitter": "5s",
        "timeout": 30,
        "queue": "books",
        "retry": Retry(7),
        "window": "MON-SUN 00:00-24:00 UTC",
        "condition": "now > timestamp('2020-01-01T00:00:00Z')",
    }
    await beat.schedules.aput("books", NIGHTLY, CALL, **full)
    return "books"


async def test_an_update_changes_what_is_given(beat: Onbeat, books: str) -> None:
    before = (await beat.schedules.aget(books)).to_dict()
    await beat.schedules.aupdate(books, overlap="wait", queue="other", timeout=timedelta(minutes=1))
    after = (await beat.schedules.aget(books)).to_dict()

    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"overlap", "queue", "timeout", "updated_at"}
    assert (after["overlap"], after["queue"], after["timeout"]) == ("wait", "other", "1m")


async def test_none_is_the_default_again(beat: Onbeat, books: str) -> None:
    reset: Policies = {
        "grace": None,
        "overlap": None,
        "jitter": 0,
        "timeout": None,
        "retry": None,
        "window": None,
    }
    await beat.schedules.aupdate(books, **reset)
    after = (await beat.schedules.aget(books)).to_dict()
    assert {"grace", "timeout", "window"} & after.keys() == set()
    assert (after["overlap"], after["jitter"], after["queue"]) == ("allow", "0s", "books")
    assert after["retry"]["attempts_max"] != 7
    assert "condition" in after


async def test_the_rule_and_the_target_change_alone(beat: Onbeat, books: str) -> None:
    await beat.schedules.aupdate(books, cron("*/5 * * * *"))
    shown = await beat.schedules.aget(books)
    assert (shown.cron, shown.callback_url) == ("*/5 * * * *", "https://example.com/close")
    assert shown.to_dict().get("timezone", "UTC") == "UTC"
    await beat.schedules.aupdate(books, call=http("PUT", "https://example.com/other"), paused=True)
    shown = await beat.schedules.aget(books)
    assert (shown.method, shown.status, shown.cron) == ("PUT", "paused", "*/5 * * * *")


async def test_options_of_the_new_call_count_as_they_do_in_put(beat: Onbeat) -> None:
    @beat.task("close", queue="books", retry=Retry(7))
    def close() -> None: ...

    await beat.schedules.aput("books", NIGHTLY, close.call(), priority=3, grace="1h")
    before = (await beat.schedules.aget("books")).to_dict()
    await beat.schedules.aupdate("books", call=close.call())
    same = (await beat.schedules.aget("books")).to_dict()
    assert {name for name in before if before[name] != same[name]} <= {"updated_at"}

    own: Call[Any] = close.options(
        priority=9, timeout="9s", retry=Retry(2), expires_in="1m", labels={"a": "b"}
    ).call()
    await beat.schedules.aupdate("books", call=own, timeout="5s")
    after = (await beat.schedules.aget("books")).to_dict()
    assert (after["priority"], after["retry"]["attempts_max"], after["queue"]) == (9, 2, "books")
    assert (after["timeout"], after["expires_after"]) == ("5s", "1m")
    assert (after["labels"], after["grace"]) == ({"a": "b"}, "1h")


async def test_none_leaves_the_option_of_the_call(beat: Onbeat) -> None:
    @beat.task("close")
    def close() -> None: ...

    call: Call[Any] = close.options(retry=Retry(2), timeout="9s", expires_in="1m").call()
    unsaid: Policies = {"retry": None, "timeout": None, "expires_after": None, "queue": None}
    await beat.schedules.aput("books", NIGHTLY, call, **unsaid)
    shown = (await beat.schedules.aget("books")).to_dict()
    assert shown["retry"]["attempts_max"] == 2
    assert (shown["timeout"], shown["expires_after"]) == ("9s", "1m")
    wrong: Any = 5
    with pytest.raises(Invalid, match="retry must be Retry") as caught:
        await beat.schedules.aput("books", NIGHTLY, call, retry=wrong)
    assert caught.value.field == "retry"


async def test_a_schedule_of_time_can_react_to_events_and_back(beat: Onbeat) -> None:
    books = "books"
    await beat.schedules.aput(books, NIGHTLY, CALL)
    await beat.schedules.aupdate(books, on=["order.*"], delay="5s", gather={"for": "1m"})
    shown = (await beat.schedules.aget(books)).to_dict()
    assert (shown["on"], shown["delay"]) == ({"type": "order.*"}, "5s")
    await beat.schedules.aupdate(books, delay=0, gather=None)
    shown = (await beat.schedules.aget(books)).to_dict()
    assert {"delay", "gather"} & shown.keys() == set()
    await beat.schedules.aupdate(books, every("1h"))
    assert "on" not in (await beat.schedules.aget(books)).to_dict()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"overlap": "never"}, "overlap"),
        ({"grace": "soon"}, "grace"),
        ({"starts_at": datetime(2026, 1, 1)}, "starts_at"),  # noqa: DTZ001  it is refused
        ({"queue": ""}, "queue"),
        ({"on": []}, "on"),
        ({"recurrence": lambda at: at}, "recurrence"),
    ],
)
async def test_a_wrong_change_is_named(
    beat: Onbeat, books: str, given: dict[str, Any], field: str
) -> None:
    for verb in (beat.schedules.aupdate, beat.schedules.adiff):
        with pytest.raises(Invalid) as refused:
            await verb(books, **given)
        assert refused.value.field == field
    with pytest.raises(NotFound):
        await beat.schedules.aupdate("nobody", queue="x")
    with pytest.raises(TypeError, match="colour"):
        await beat.schedules.aupdate(books, colour="red")  # type: ignore[call-arg]


async def test_a_diff_says_what_an_update_would_change(beat: Onbeat, books: str) -> None:
    diff = await beat.schedules.adiff(books, every("1h"), queue="other")
    fields = {change.field: change.after for change in diff.changes}
    assert fields["queue"] == "other"
    assert {"every", "rrule", "timezone"} & fields.keys()
    assert (await beat.schedules.aget(books)).queue == "books"
    assert (await beat.schedules.adiff(books, queue="books")).changes == ()


async def test_a_diff_of_a_put_says_what_it_would_change(beat: Onbeat) -> None:
    new = await beat.schedules.aput_diff("books", NIGHTLY, CALL)
    assert new.created is True
    with pytest.raises(NotFound):
        await beat.schedules.aget("books")
    await beat.schedules.aput("books", NIGHTLY, CALL, grace="1h")
    assert (await beat.schedules.aput_diff("books", NIGHTLY, CALL, grace="1h")).changes == ()
    (change,) = (await beat.schedules.aput_diff("books", NIGHTLY, CALL, grace="2h")).changes
    assert (change.field, change.before, change.after) == ("grace", "1h", "2h")
    with pytest.raises(Invalid, match="has no text"):
        await beat.schedules.aput_diff("books", lambda at: at, CALL)
    assert "books" not in beat.backend.registry.functions


async def test_each_create_makes_another_one(beat: Onbeat) -> None:
    first, second = [await beat.schedules.acreate(NIGHTLY, CALL, name="close") for _ in range(2)]
    assert first != second
    shown = await beat.schedules.aget(first)
    assert (shown.name, "key" in shown.to_dict()) == ("close", False)
    with pytest.raises(Invalid) as refused:
        await beat.schedules.acreate(NIGHTLY, CALL)
    assert refused.value.field == "name"


async def test_a_backfill_counts_then_adds_once(beat: Onbeat) -> None:
    end = datetime(2026, 3, 10, tzinfo=UTC)
    start = end - timedelta(days=3)
    await beat.schedules.aput("hourly", cron("0 * * * *"), CALL, starts_at=start, paused=True)
    counted = await beat.schedules.abackfill("hourly", start, end, dry_run=True)
    assert (counted.jobs, counted.exist, counted.more) == (73, 0, False)
    part = await beat.schedules.abackfill("hourly", start, end, limit=24)
    assert (part.jobs, part.through) == (24, start + timedelta(hours=23))
    assert (await beat.schedules.abackfill("hourly", start, end)).jobs == 49
    assert (await beat.schedules.abackfill("hourly", start, end)).jobs == 0
    with pytest.raises(Invalid, match="time zone"):
        await beat.schedules.abackfill("hourly", start.replace(tzinfo=None), end)


async def test_occurrences_and_their_events_go_by_pages(beat: Onbeat) -> None:
    end = datetime(2026, 3, 10, tzinfo=UTC)
    start = end - timedelta(hours=4)
    await beat.schedules.aput("hourly", cron("0 * * * *"), CALL, starts_at=start, paused=True)
    await beat.schedules.abackfill("hourly", start, end)
    events = await beat.schedules.aevents("hourly", ended=False, limit=2)
    assert [event.run_time for event in events] == [end, end - timedelta(hours=1)]
    rest = await beat.schedules.aevents("hourly", ended=False, limit=2, page=2)
    assert rest[0].run_time == end - timedelta(hours=2)
    page = await beat.schedules.aoccurrences("hourly", since=start, until=end, limit=2)
    assert len(page.occurrences) == 2
    following = await beat.schedules.aoccurrences("hourly", limit=2, cursor=page.cursor)
    assert following.occurrences[0].at < page.occurrences[-1].at
    failed = OccurrenceOutcome.FAILED
    none = await beat.schedules.aoccurrences("hourly", since=start, until=end, disposition=failed)
    assert none.occurrences == ()


async def test_a_preview_of_a_schedule_is_that_of_its_rule(beat: Onbeat, books: str) -> None:
    stored = await beat.schedules.apreview(books, count=3)
    rule = await beat.schedules.apreview_rule(NIGHTLY, count=3)
    assert len(stored.occurrences) == 3
    assert stored.occurrences == rule.occurrences
    assert stored.description == rule.description
    after = datetime(2026, 3, 28, tzinfo=UTC)
    (first,) = (await beat.schedules.apreview_rule(NIGHTLY, after=after, count=1)).occurrences
    assert first == datetime(2026, 3, 28, 2, tzinfo=UTC)


async def test_lists_go_by_pages_and_status(beat: Onbeat) -> None:
    for number in range(3):
        await beat.schedules.aput(f"k{number}", NIGHTLY, CALL, paused=number == 1)
    keys = [one.key for one in await beat.schedules.alist(limit=2)]
    assert keys == ["k2", "k1"]
    assert [one.key for one in await beat.schedules.alist(limit=2, page=2)] == ["k0"]
    assert [one.key for one in await beat.schedules.alist(status="paused")] == ["k1"]
