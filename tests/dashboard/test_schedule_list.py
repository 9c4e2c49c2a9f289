"""The list of schedules: how each went, which are in trouble, and many at once."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dashboard.office import DashboardOffice
from onbeat.dashboard.drawing.outcomes import strip
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.occurrence import OccurrenceOutcome as Outcome
from onbeat.model.plan import Skip
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.operations.schedule_health import last_outcomes
from onbeat.ports.store import JobExport
from onbeat.testing.build import a_plan, a_schedule, an_id, an_occurrence
from operations.harness import NOON

HOUR = timedelta(hours=1)


async def add(office: DashboardOffice, *states: JobState, **fields: Any) -> Schedule:
    """A schedule with runs an hour apart, the last one an hour ago."""
    skips = fields.pop("skips", ())
    schedule = a_schedule(**fields)
    await office.harness.store.add_schedule(schedule, a_plan(schedule, skips=skips))
    for place, state in enumerate(reversed(states), 1):
        at = NOON - place * HOUR
        job = an_occurrence(schedule, at, id=JobId(an_id()), state=state)
        if state is not JobState.WAITING:
            job = replace(job, started_at=at, finished_at=at, attempt=1, token=1)
        await office.harness.store.import_jobs([JobExport(job=job)])
    return schedule


@pytest.fixture
def office() -> DashboardOffice:
    return DashboardOffice(keys=())


async def listed(office: DashboardOffice, query: str) -> str:
    answer = await office.client().get(f"/schedules?{query}")
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def test_the_last_outcomes_are_a_strip_with_words(office: DashboardOffice) -> None:
    ended = (JobState.SUCCEEDED, JobState.FAILED, JobState.SUCCEEDED)
    skip = Skip(NOON - HOUR / 2, NOON - HOUR / 2, "misfired: found 2 h late")
    schedule = await add(office, *ended, skips=(skip,))
    other = await add(office)
    context = office.harness.context
    found = await last_outcomes(context, [schedule.id, other.id], 3)
    assert found == {
        schedule.id: [Outcome.FAILED, Outcome.RAN, Outcome.MISFIRED],
        other.id: [],
    }
    words = "Of the last 4: 2 ran, 1 failed, 1 misfired; the newest: misfired"
    assert f'aria-label="{words}"' in await listed(office, "")


def test_every_outcome_of_a_strip_can_be_drawn() -> None:
    found = [
        one for one in Outcome if one not in {Outcome.LATE, Outcome.RETRYING, Outcome.FORGOTTEN}
    ]
    assert strip(found).count("<rect") == len(found)
    assert strip([]) == ""


async def test_schedules_in_trouble_are_a_filter(office: DashboardOffice) -> None:
    good, bad = JobState.SUCCEEDED, JobState.FAILED
    await add(office, good, bad, JobState.WAITING, name="failing one")
    await add(office, bad, good, name="well again")
    late = NOON - 23 * HOUR
    await add(office, name="missed one", skips=(Skip(late, late, "misfired: found late"),))
    old = NOON - 25 * HOUR
    await add(office, name="missed long ago", skips=(Skip(old, old, "misfired: found late"),))
    await add(office, name="skipped one", skips=(Skip(late, late, "overlap: one runs"),))
    names = ("failing one", "well again", "missed one", "missed long ago", "skipped one")

    async def shown(query: str) -> list[str]:
        page = await listed(office, query)
        return [name for name in names if f"<b>{name}</b>" in page]

    assert await shown("") == list(names)
    assert await shown("trouble=failing") == ["failing one"]
    assert await shown("trouble=misfired") == ["missed one"]
    assert await shown("trouble=failing&status=paused") == []
    assert await shown("trouble=failing&page=2") == []
    refused = await office.client().get("/schedules?trouble=bored")
    assert refused.status == 422
    assert "trouble must be one of failing, misfired" in refused.body.decode()


@pytest.mark.parametrize("status", list(ScheduleStatus))
async def test_a_schedule_has_the_button_for_its_status(
    office: DashboardOffice, status: ScheduleStatus
) -> None:
    schedule = await add(office, status=status)
    page = (await office.client().get(f"/schedules/{schedule.id}")).body.decode()
    for text in (page, await listed(office, "")):
        is_paused = status is ScheduleStatus.PAUSED
        assert (f"/api/schedules/{schedule.id}/pause" in text) is not is_paused
        assert (f"/api/schedules/{schedule.id}/resume" in text) is is_paused


async def test_schedules_in_trouble_need_the_right_to_read() -> None:
    office = DashboardOffice(keys=("carrier:submit=submit-key-of-the-test-01",))
    client = office.client(authorization="Bearer submit-key-of-the-test-01")
    assert (await client.get("/schedules?trouble=failing")).status == 403
