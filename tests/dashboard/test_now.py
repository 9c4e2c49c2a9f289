"""The first page with a history, and a history that outlives its process."""

import re
import signal
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from conditions import eventually_here
from dashboard.office import ADMIN, DashboardOffice
from interfaces.rest_client import RestClient
from interfaces.up import Up, up
from onbeat.model.pulse import Depth, Gauges, Pulse, SeriesTotals, Totals
from onbeat.rules.pulses import FINEST
from operations.harness import NOON

SECOND = timedelta(seconds=1)

PROGRAM = """
    from onbeat import Onbeat

    beat = Onbeat()


    @beat.task("work")
    async def work() -> None: ...
"""


@pytest.fixture
async def office() -> DashboardOffice:
    """Two minutes of work that ended ten minutes ago, and one that has just ended."""
    office = DashboardOffice()
    store = office.harness.store
    for seconds in (*range(700, 580, -10), *range(70, 10, -10)):
        failed = 4 if seconds < 100 else 0
        totals = Totals(50, (50 - failed, failed), (0, 50), (0, 0, 50))
        series = (SeriesTotals("default", "work", totals),)
        at = NOON - seconds * SECOND
        pulse = Pulse(resolution=FINEST, at=at, source="p", totals=totals, series=series)
        await store.put_pulses([pulse])
    await store.put_sample(FINEST, Gauges(at=NOON - 60 * SECOND, total=Depth(due=3)))
    return office


async def page_of(browser: RestClient, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def test_plots_show_gaps_not_zeros(office: DashboardOffice) -> None:
    page = await page_of(await office.session(ADMIN), "/")
    paths = re.findall(r'<path class="(area|line|gap) ?(\w*)" d="([^"]*)"', page)
    succeeded = next(path for shape, colour, path in paths if (shape, colour) == ("area", "ok"))
    assert succeeded.count("M") == 2, "two parts with a gap between them"
    assert "H1440" in succeeded
    gap = next(path for shape, _, path in paths if shape == "gap")
    assert gap.count("M") == 2, "before the first part, and between both"
    assert "nothing was measured" in page


@pytest.mark.parametrize("span", ["hour", "day", "week"])
async def test_each_span_has_its_plots_and_its_table(office: DashboardOffice, span: str) -> None:
    page = await page_of(await office.session(ADMIN), f"/?span={span}")
    assert f"<h2>Last {span}</h2>" in page
    assert page.count("data-plot ") == 3
    assert "As a table" in page
    assert len(page) < 200_000


async def test_tiles_tell_rates_of_the_last_minute(office: DashboardOffice) -> None:
    page = await page_of(await office.session(ADMIN), "/")
    assert "<b>5/s</b>" in page
    assert '<b class="text-fail">0.4/s</b>' in page


async def test_a_storm_of_failures_is_the_verdict(office: DashboardOffice) -> None:
    page = await page_of(await office.session(ADMIN), "/")
    assert "<title>Attempts are failing now" in page
    assert "24 failed in the last minute" in page


async def test_without_a_history_the_page_says_so() -> None:
    page = await page_of(await DashboardOffice().session(ADMIN), "/")
    assert "<b>unknown</b>" in page
    assert "Nothing was measured." in page
    assert "Attempts are failing now" not in page


async def test_queues_have_their_rate_and_their_hour(office: DashboardOffice) -> None:
    await office.harness.store.pause_queue("default", paused=True)
    page = await page_of(await office.session(ADMIN), "/queues")
    assert re.search(r'5/s\s*<svg class="strip".*?d="M', page, re.DOTALL)


async def test_an_unknown_span_is_refused(office: DashboardOffice) -> None:
    answer = await (await office.session(ADMIN)).get("/?span=year")
    assert answer.status == 422
    assert "span" in answer.body.decode()


def test_history_survives_a_restart(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(dedent(PROGRAM))
    args = ("app:beat", "--store", f"sqlite:///{tmp_path}/onbeat.db")
    with up(tmp_path, *args) as first:
        assert first.ask("/api/jobs", {"task": "work"})[0] == 201
        before = eventually_here(lambda: started(first), "the job is in the history")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with up(tmp_path, *args) as second:
        assert started(second) == before == 1


def started(service: Up) -> int:
    status, answer = service.ask("/api/pulses")
    assert status == 200, answer
    return sum(point["started"] or 0 for point in answer["points"])
