"""What a form of a schedule shows of the time to come, and of what cannot be read."""

from datetime import date, timedelta

import pytest

from dashboard.office import DashboardOffice
from dashboard.test_forms import fields_of, sent, text_of
from interfaces.rest_client import RestClient
from onbeat.dashboard.drawing.year import year
from onbeat.dashboard.formats import pointed
from onbeat.dashboard.pages import outlook
from onbeat.operations import years
from onbeat.operations.tables.schedules import SCHEDULE_CREATE
from onbeat.operations.years import YearOfFires, year_of_fires
from onbeat.rules import forecast as forecast_rules
from onbeat.wire.recurrences import PreviewBody
from operations.harness import NOON, OperationsHarness

BERLIN = "Europe/Berlin"
MONDAYS = PreviewBody(cron="30 2 * * 1", timezone=BERLIN)


async def preview(office: DashboardOffice, **typed: str) -> tuple[RestClient, str, str]:
    """The page as text and as it is."""
    client = await office.session()
    fields = fields_of(await client.get("/schedules/new"))
    page = await sent(client, "/schedules/new", {**fields, **typed, "intent": "preview"})
    return client, text_of(page), page.body.decode()


async def test_a_year_counts_the_fires_of_each_day_of_the_rules_zone() -> None:
    office = OperationsHarness()
    found = await year_of_fires(office.context, MONDAYS, 365)
    assert found is not None
    assert found.first == date(2026, 3, 2)
    assert [place for place, fires in enumerate(found.days) if fires][:2] == [7, 14]
    assert (sum(found.days), found.counted_to) == (52, None)
    assert [change.before.date() for change in found.changes] == [
        date(2026, 3, 29),
        date(2026, 10, 25),
    ]
    bounded = await year_of_fires(
        office.context, MONDAYS, 365, NOON + timedelta(days=8), NOON + timedelta(days=22)
    )
    assert bounded is not None
    assert sum(bounded.days) == 2


async def test_a_year_of_very_many_fires_is_counted_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(years, "YEAR_FIRES_MAX", 10)
    context, hourly = OperationsHarness().context, PreviewBody(every="1h")
    found = await year_of_fires(context, hourly, 30)
    assert found is not None
    assert (found.days[0], found.counted_to) == (10, date(2026, 3, 2))
    monkeypatch.setattr(years, "YEAR_FIRES_MAX", 24 * 30)
    found = await year_of_fires(context, hourly, 30)
    assert found is not None
    assert found.counted_to is None
    drawn = year(YearOfFires(first=NOON.date(), days=(3, 0), counted_to=NOON.date(), changes=()))
    assert drawn.count('class="unread"') == 2
    assert "counted up to 2 Mar 2026" in drawn


async def test_a_preview_has_twelve_months_with_the_days_of_clock_changes() -> None:
    _, text, page = await preview(
        DashboardOffice(), kind="cron", rule="30 2 * * *", timezone=BERLIN
    )
    assert "It fires on 365 of 365 days." in text or "It fires on 364 of 365 days." in text
    assert "29 Mar 2026: 02:00 to 03:00 does not exist" in text
    assert "25 Oct 2026: 02:00 to 03:00 comes twice" in text
    assert page.count(' turn"') == 2


async def test_a_preview_tells_how_busy_its_hours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    office = DashboardOffice()
    for number in range(3):
        body = {"name": f"{number}", "target": {"task": "tick"}, "cron": "0,20,40 14 * * *"}
        await office.harness.ask(SCHEDULE_CREATE, body)
    _, text, page = await preview(office, kind="cron", rule="30 14,15 * * *")
    assert 'title="All schedules fire 9 times in this hour">9</span>' in page
    assert 'title="All schedules fire 0 times in this hour">0</span>' in page
    assert "how often all schedules fire in that hour" in text
    monkeypatch.setattr(outlook, "SCHEDULES_MAX", 2)
    office.harness.move(minutes=2)
    assert "All schedules fire" not in (await preview(office, kind="cron", rule="30 14 * * *"))[2]


async def test_a_preview_says_where_a_schedule_was_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    office = DashboardOffice()
    body = {"name": "1", "target": {"task": "tick"}, "rrule": "FREQ=SECONDLY;BYHOUR=14,15"}
    await office.harness.ask(SCHEDULE_CREATE, body)
    monkeypatch.setattr(forecast_rules, "FORECAST_FIRES_MAX", 3_700)
    _, text, page = await preview(office, kind="cron", rule="30 14,15 * * *")
    assert 'title="All schedules fire 3,600 times in this hour">3,600</span>' in page
    assert 'title="All schedules fire at least 100 times in this hour">100+</span>' in page
    assert "; a plus says that there may be more." in text


@pytest.mark.parametrize(
    ("kind", "rule", "shown"),
    [
        ("cron", "30 2 * * 1-x", "30 2 * * 1-x\n         ^"),
        ("rrule", "FREQ=DAILY;BYHOUR=25", "FREQ=DAILY;BYHOUR=25\n                  ^"),
        ("every", "1h 3x", "1h 3x\n   ^"),
    ],
)
async def test_a_fault_of_a_rule_has_a_caret_at_its_place(kind: str, rule: str, shown: str) -> None:
    _, _, page = await preview(DashboardOffice(), kind=kind, rule=rule)
    caret = page.partition('id="caret-rule" data-caret>')[2].partition("</pre>")[0]
    assert caret == shown


async def test_a_rule_without_a_fault_has_no_caret() -> None:
    _, _, page = await preview(DashboardOffice(), kind="cron", rule="30 2 * * *")
    assert "data-caret></pre>" in page


def test_a_caret_stands_below_its_character_in_a_part_of_a_long_line() -> None:
    assert pointed("a\nbc", 3) == "bc\n ^"
    assert pointed("", 4) == "\n^"
    line, caret = pointed("x" * 100 + "!" + "y" * 100, 100).split("\n")
    assert line[len(caret) - 1] == "!"
    assert len(line) == 41
    line, caret = pointed("\x07" + "ab!", 3).split("\n")
    assert line[len(caret) - 1] == "!"
