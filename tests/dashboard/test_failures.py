"""The pages of failures, and groups of dead letters on theirs."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest

from dashboard.office import ADMIN, FORM, READ, DashboardOffice, proof
from interfaces.rest_client import RestClient
from onbeat.dashboard.pages.failures import STEP, STRIP_HEIGHT, strip
from onbeat.model.fault import FaultProcess
from onbeat.model.ids import WorkerId
from onbeat.model.outcome import Failed
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.faults import a_change

NOW = datetime(2026, 3, 2, 12, 40, tzinfo=UTC)


@pytest.fixture
async def office() -> DashboardOffice:
    office = DashboardOffice()
    rest = office.client(authorization=f"Bearer {ADMIN}")
    for order in range(3):
        assert (await rest.post("/api/jobs", {"task": "charge", "args": [order]})).status == 201
        await office.harness.run(Failed(f"order {order} failed", retryable=False), "charge")
    return office


async def fault_of(browser: RestClient) -> str:
    (one,) = (await browser.get("/api/failures", authorization=f"Bearer {ADMIN}")).json["failures"]
    return str(one["fault"])


async def test_a_fault_is_one_row_with_links_to_what_it_counts(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    page = (await browser.get("/failures")).body.decode()
    fault = await fault_of(browser)
    assert page.count("order # failed") == 1
    assert f'/jobs?fault={fault}&amp;state=failed">3</a>' in page
    assert "Retry 3" in page
    assert f"/api/failures/{fault}/silence" in page
    listed = (await browser.get(f"/jobs?fault={fault}&state=failed")).body.decode()
    assert listed.count(">failed</span>") == 3


async def test_a_fault_has_its_hours_and_newest_jobs(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    fault = await fault_of(browser)
    page = (await browser.get(f"/failures/{fault}")).body.decode()
    assert "3 failed attempts in 7 days, at most 3 in an hour" in page
    assert page.count("order 2 failed") == 1
    (job, *_) = (await browser.get("/api/jobs", authorization=f"Bearer {ADMIN}")).json["jobs"]
    assert "3 like this" in (await browser.get(f"/jobs/{job['id']}")).body.decode()
    assert "charge fails: order # failed" in (await browser.get("/")).body.decode()


async def test_a_silenced_fault_says_until_when(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    fault = await fault_of(browser)
    until = office.harness.clock.at + timedelta(hours=1)
    await office.harness.store.silence_fault(int(fault), until, "known <b>")
    page = (await browser.get(f"/failures/{fault}")).body.decode()
    assert "Silenced until" in page
    assert "known &lt;b&gt;" in page
    assert "End the silence" in page
    assert "charge fail" not in (await browser.get("/")).body.decode()


async def test_a_fault_tells_since_which_deploy_and_where(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    fault = await fault_of(browser)
    page = (await browser.get(f"/failures/{fault}")).body.decode()
    assert " after " not in page.partition("First seen")[2].partition("</dd>")[0]
    assert 'aria-label="default"' in page, "its queue"
    started = office.harness.clock.at
    process = FaultProcess(id=WorkerId("w"), host="web<1>", pid=7, started_at=started, release="v4")
    at = started + timedelta(minutes=4)
    change = a_change(7, first_at=at, last_at=at, process=process)
    await office.harness.store.note_faults([change])
    page = (await browser.get("/failures/7")).body.decode()
    assert ">4 min after web&lt;1&gt;:7 started with release v4<" in page


async def test_an_operator_writes_a_note(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    path = f"/failures/{await fault_of(browser)}"
    fields = urlencode({"proof": proof(browser), "text": "ticket <4711>"}).encode()
    answer = await browser.send("POST", f"{path}/note", fields, content_type=FORM)
    assert (answer.status, answer.headers["location"]) == (303, path)
    page = (await browser.get(path)).body.decode()
    assert '<p class="body kept">ticket &lt;4711&gt;</p>' in page
    assert "boss, " in page
    reader = await office.session(READ)
    assert "Save the note" not in (await reader.get(path)).body.decode()


async def test_a_key_that_only_reads_has_no_buttons(office: DashboardOffice) -> None:
    browser = await office.session(READ)
    fault = await fault_of(browser)
    for path in ("/failures", f"/failures/{fault}", "/dead"):
        page = (await browser.get(path)).body.decode()
        assert "data-path" not in page.partition("<main")[2].partition("</main>")[0], path


async def test_dead_letters_are_shown_by_group_first(office: DashboardOffice) -> None:
    letters = [a_dead_letter(reason=f"not JSON at {n}") for n in range(3)]
    await office.harness.store.add_dead_letters(letters)
    browser = await office.session(ADMIN)
    page = (await browser.get("/dead")).body.decode()
    assert page.index("not JSON at #") < page.index("not JSON at 2")
    assert "Replay 3" in page
    assert "not JSON at #" not in (await browser.get("/dead?source=orders")).body.decode()


def test_a_strip_has_a_bar_for_each_hour_with_failures() -> None:
    drawn = strip((0, 1, 0, 100), NOW)
    assert drawn.width == 4 * STEP
    assert [(bar.x, bar.height, bar.attempts) for bar in drawn.bars] == [
        (STEP, 2, 1),
        (3 * STEP, STRIP_HEIGHT, 100),
    ]
    assert drawn.bars[-1].at == NOW.replace(minute=0)
    assert drawn.words == "101 failed attempts in 4 hours, at most 100 in an hour"
    assert strip((), NOW).bars == ()
