"""`beat.jobs` finds the same jobs by a line of search, by filters and over pages."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat import Invalid, Onbeat
from onbeat.app import pages


@pytest.fixture(params=["store", "service"])
async def beat(request: pytest.FixtureRequest, service: str) -> Any:
    one = Onbeat("memory://") if request.param == "store" else Onbeat(service)
    yield one
    await one.aclose()
    one.backend.portal.close()


@pytest.fixture
async def sent(beat: Onbeat) -> list[str]:
    """The ids of three waiting jobs."""

    @beat.task("shop.charge")
    async def charge(order: int) -> None: ...

    later = charge.options(delay="1h")
    calls = [
        later.options(unique="order:1", labels={"run": "2026-11"}).call(1),
        later.options(unique="order:2", queue="slow").call(2),
        later.call(3),
    ]
    return [job.id for job in await beat.asend(calls)]


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("state:waiting shop.*", [2, 1, 0]),
        ("queue:slow since:2h", [1]),
        ("label:run:2026-11", [0]),
        ("unique:order:2", [1]),
        ('"timeout"', []),
        ("until:2h task:shop.charge", []),
    ],
)
async def test_a_line_of_search_finds_jobs(
    beat: Onbeat, sent: list[str], line: str, places: list[int]
) -> None:
    found = await beat.jobs.asearch(line)
    assert [job.id for job in found] == [sent[place] for place in places]


async def test_a_wrong_line_is_refused(beat: Onbeat) -> None:
    with pytest.raises(Invalid, match="Character 1: colour: is no filter"):
        await beat.jobs.asearch("colour:red")
    with pytest.raises(Invalid, match="since must be an instant"):
        await beat.jobs.asearch("since:soon")


async def test_a_job_is_found_by_its_unique_key(beat: Onbeat, sent: list[str]) -> None:
    (job,) = await beat.jobs.alist(unique="order:1")
    assert job.id == sent[0]
    assert await beat.jobs.alist(unique="order:") == ()
    counted = await beat.jobs.abulk("cancel", unique="order:2", dry_run=True)
    assert (counted.count, counted.created) == (1, False)


async def test_a_limit_above_a_page_takes_several(
    beat: Onbeat, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_LIMIT_MAX", 2)
    for number in range(3):
        await beat.events.apublish("order.paid", id=str(number))
    assert [job.id for job in await beat.jobs.alist(limit=3)] == sent[::-1]
    assert [job.id for job in await beat.jobs.alist(limit=2)] == sent[:0:-1]
    assert [event.id for event in await beat.events.alist(limit=9)] == ["2", "1", "0"]


async def test_all_that_match_are_rescheduled_once_they_were_counted(
    beat: Onbeat, sent: list[str]
) -> None:
    counted = await beat.jobs.abulk("reschedule", task="shop.*", delay="2h", dry_run=True)
    assert counted.count == 3
    made = await beat.jobs.abulk(
        "reschedule", task="shop.*", delay=timedelta(hours=2), upto=counted.upto
    )
    assert (await beat.jobs.aget_bulk(str(made.id))).counted == 3
    assert (await beat.jobs.astop_bulk(str(made.id))).do == "reschedule"
