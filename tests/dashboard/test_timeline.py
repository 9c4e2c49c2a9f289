"""The page of the timeline: what it shows, where it leads, and that it is bounded."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from conditions import eventually
from dashboard.office import DashboardOffice
from dashboard.test_forms import text_of
from interfaces.rest_client import RestClient
from onbeat.dashboard.pages import timeline
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.plan import Skip
from onbeat.model.schedule import Schedule
from onbeat.operations.tables.schedules import SCHEDULE_CREATE
from onbeat.ports.store import JobExport
from onbeat.testing.build import a_plan, a_schedule, an_id, an_occurrence
from operations.harness import NOON, OperationsHarness

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
PAGE_BYTES_MAX = 120_000


@pytest.fixture
def office() -> DashboardOffice:
    return DashboardOffice(keys=())


async def add(office: DashboardOffice, *skips: Skip, **fields: Any) -> Schedule:
    given = {"updated_at": NOON - 24 * HOUR, **fields}
    schedule = a_schedule(**given)
    await office.harness.store.add_schedule(schedule, a_plan(schedule, skips=skips))
    return schedule


async def add_run(
    office: DashboardOffice,
    schedule: Schedule,
    at: datetime,
    state: JobState = JobState.SUCCEEDED,
    late: timedelta = timedelta(),
) -> str:
    job = an_occurrence(schedule, at, id=JobId(an_id()), state=state)
    start = at + late
    job = replace(job, started_at=start, finished_at=start + MINUTE, attempt=1, token=1)
    await office.harness.store.import_jobs([JobExport(job=job)])
    return job.id


async def page_text(rest: RestClient, path: str = "/timeline") -> str:
    answer = await rest.get(path)
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def test_marks_lead_to_their_jobs(office: DashboardOffice) -> None:
    schedule = await add(office, Skip(NOON - HOUR, NOON - HOUR, "overlap: one is unfinished"))
    late = await add_run(office, schedule, NOON - 4 * HOUR, late=2 * HOUR)
    failed = await add_run(office, schedule, NOON - 6 * HOUR, JobState.FAILED)
    text = await page_text(office.client())
    for id in (late, failed):
        assert f'href="/jobs/{id}"' in text
    assert "misfired: it was due 08:00:00" in text
    assert "skipped 11:00:00, overlap: one is unfinished" in text
    assert "Monday 2 March 2026" in text
    assert ">12:00 now<" in text


async def test_dragging_has_buttons(office: DashboardOffice) -> None:
    rest = office.client(cookie="onbeat-zone=Europe%2FBerlin")
    await add(office)

    async def steps(path: str) -> list[str]:
        text = await page_text(rest, path)
        return re.findall(r'data-key="." href="([^"]*)"', text)

    assert await steps("/timeline") == [
        "/timeline?day=2026-03-01",
        "/timeline",
        "/timeline?day=2026-03-03",
    ]
    week = await steps("/timeline?span=week&q=")
    assert week == [
        "/timeline?span=week&amp;day=2026-02-20",
        "/timeline?span=week",
        "/timeline?span=week&amp;day=2026-03-06",
    ]
    hours = await steps("/timeline?span=6h&day=2026-03-29T00:00:00Z")
    assert [step.rpartition("day=")[2] for step in hours[::2]] == [
        "2026-03-28T18%3A00%3A00%2B00%3A00",
        "2026-03-29T06%3A00%3A00%2B00%3A00",
    ]


async def test_a_day_is_named_with_its_zone_and_its_hours(office: DashboardOffice) -> None:
    await add(office)
    text = await page_text(office.client(), "/timeline?day=2026-03-29&tz=Europe/Berlin")
    assert "Europe/Berlin, 23 hours" in text
    assert text.count("02:00 to 03:00 does not exist") == 2


async def test_the_way_back_from_a_day_that_a_zone_left_out(office: DashboardOffice) -> None:
    text = await page_text(office.client(), "/timeline?day=2011-12-31&tz=Pacific/Apia")
    assert 'href="/timeline?day=2011-12-29&amp;tz=Pacific%2FApia"' in text


async def test_nothing_planned_yet_says_what_to_do(office: DashboardOffice) -> None:
    assert "Nothing is planned yet." in await page_text(office.client())
    assert "No schedule matches." in await page_text(office.client(), "/timeline?q=nothing")


async def test_what_is_unknown_is_refused_in_words(office: DashboardOffice) -> None:
    for path, words in (("?colour=red", "colour"), ("?day=today", "day must be a date")):
        answer = await office.client().get(f"/timeline{path}")
        assert answer.status == 422
        assert words in answer.body.decode()


async def test_a_page_of_many_lanes_stays_small(office: DashboardOffice) -> None:
    for number in range(45):
        schedule = await add(office, name=f"schedule {number:02}")
        for hour in range(11):
            await add_run(office, schedule, NOON - (hour + 1) * HOUR)
    text = await page_text(office.client(), "/timeline?order=name")
    assert len(re.findall(r'class="mark \w+"', text)) <= timeline.MARKS_MAX + 7
    assert "40 of 45 schedules" in text
    assert "These together" in text
    assert 'href="/timeline?order=name&amp;page=2"' in text
    assert len(text.partition("Planned occurrences, next 7 days")[0]) <= PAGE_BYTES_MAX
    assert "Previous page" in await page_text(office.client(), "/timeline?order=name&page=2")


async def test_a_schedule_has_its_lane_of_the_day(office: DashboardOffice) -> None:
    schedule = await add(office)
    id = await add_run(office, schedule, NOON - HOUR)
    text = await page_text(office.client(), f"/schedules/{schedule.id}")
    assert f'<a href="/jobs/{id}" class="mark succeeded">' in text


async def test_the_heat_map_leads_to_its_hours(office: DashboardOffice) -> None:
    await add(office)
    text = await page_text(office.client())
    assert "156 occurrences" in text
    assert 'href="/timeline?span=6h&amp;day=2026-03-02T12%3A00%3A00%2B00%3A00"' in text


async def test_the_heat_map_says_where_it_is_cut(office: DashboardOffice) -> None:
    rule = "FREQ=SECONDLY;BYHOUR=12,13,14,15,16,17,18,19,20,21,22,23,0,1,2,3,4,5,6"
    body = {"name": "dense", "target": {"task": "tick"}, "rrule": rule}
    await office.harness.ask(SCHEDULE_CREATE, body)
    answer = await office.client().get("/timeline")
    page, text = answer.body.decode(), text_of(answer)
    assert "at least 100,000 occurrences, busiest hour Mon 2, 13:00 with 3,600;" in text
    assert 'title="13:00, 3,600 occurrences"' in page
    assert 'title="20:00, at least 2,801 occurrences"' in page
    assert 'aria-label="Monday 02 March: 43,199 occurrences"' in page
    assert 'aria-label="Tuesday 03 March: at least 56,801 occurrences"' in page
    assert "A plus says that there may be more. Not counted to the end: dense" in text


async def test_a_forecast_is_kept_for_a_minute(office: DashboardOffice) -> None:
    await add(office)
    rest = office.client()
    assert "156 occurrences" in await page_text(rest)
    await add(office)
    assert "156 occurrences" in await page_text(rest)
    office.harness.move(minutes=1)

    async def is_made_anew() -> bool:
        return "312 occurrences" in await page_text(rest)

    await eventually(is_made_anew, "the next forecast is shown")


async def test_a_key_without_the_scope_sees_nothing() -> None:
    office = DashboardOffice(keys=("carrier:submit=submit-key-of-the-test-01",))
    answer = await office.client(authorization="Bearer submit-key-of-the-test-01").get("/timeline")
    assert answer.status == 403


async def test_a_time_whose_runs_are_no_longer_kept_is_hatched_and_named(
    office: DashboardOffice,
) -> None:
    harness = OperationsHarness(keep=6 * HOUR, keep_failed=48 * HOUR)
    office = DashboardOffice(keys=(), harness=harness)
    schedule = await add(office)
    text = await page_text(office.client())
    assert "Succeeded runs before 2 Mar 06:00 are no longer kept." in text
    assert 'class="pruned" fill="url(#pruned)" x="0%" y="0" width="25%"' in text
    assert "are no longer kept" in await page_text(office.client(), f"/schedules/{schedule.id}")
    assert 'class="pruned"' not in await page_text(office.client(), "/timeline?day=2026-03-03")
    text = await page_text(office.client(), "/timeline?day=2026-02-28&span=week")
    assert "no longer kept, and failed ones before 28 Feb 12:00." in text
    text = await page_text(office.client(), "/timeline?day=2026-02-20")
    assert "Runs before 28 Feb 12:00 are no longer kept." in text
