"""The page of alerts, silences by a form, and a session that has ended meanwhile."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest

from dashboard.office import ADMIN, FORM, READ, DashboardOffice, proof
from interfaces.rest_client import Response, RestClient
from onbeat.engine.alerts import AlertWatch
from onbeat.operations.alerts import concerns_now

PAGE = "text/html,application/xhtml+xml"


@pytest.fixture
async def office() -> DashboardOffice:
    """A job that nobody runs."""
    office = DashboardOffice()
    rest = office.client(authorization=f"Bearer {ADMIN}")
    assert (await rest.post("/api/jobs", {"task": "mail", "queue": "mail"})).status == 201
    await look(office)
    office.harness.move(seconds=30)
    await look(office)
    return office


async def look(office: DashboardOffice) -> None:
    harness = office.harness
    await AlertWatch(harness.store, harness.clock, lambda: concerns_now(harness.context)).step()


async def page_of(browser: RestClient, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def send(browser: RestClient, path: str, **fields: str) -> Response:
    body = urlencode({"proof": proof(browser), **fields}).encode()
    return await browser.send("POST", path, body, content_type=FORM, accept=PAGE)


async def test_what_stands_leads_to_the_page_that_mends_it(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    page = await page_of(browser, "/alerts")
    assert "No worker is alive" in page
    assert '<a class="button" href="/workers">Open workers</a>' in page
    assert ">notified<" in page
    await office.harness.hire("mail", beat_at=office.harness.clock.at)
    office.harness.move(minutes=2)
    await office.harness.hire("mail", beat_at=office.harness.clock.at)
    await look(office)
    stands, _, over = (await page_of(browser, "/alerts")).partition("Resolved lately")
    assert "No worker is alive" in over
    assert "No worker is alive" not in stands


@pytest.mark.parametrize("path", ["/", "/alerts"])
async def test_an_alert_is_silenced_where_it_is_shown(office: DashboardOffice, path: str) -> None:
    browser = await office.session(ADMIN)
    assert 'name="match" value="no-worker"' in await page_of(browser, path)
    fields = {"match": "no-worker", "for": "4h", "note": "known <b>", "back": path}
    answer = await send(browser, "/alerts/silence", **fields, until="2026-03-02T20:00")
    assert (answer.status, answer.headers["location"]) == (303, path)
    (made,) = await office.harness.store.silences(office.harness.clock.at)
    assert made.until == office.harness.clock.at + timedelta(hours=4)
    page = await page_of(browser, path)
    assert ">silenced</span>" in page
    assert 'name="match" value="no-worker"' not in page
    alerts = await page_of(browser, "/alerts")
    assert "known &lt;b&gt;" in alerts
    assert f"/api/silences/{made.id}" in alerts
    assert "known &lt;b&gt;" in await page_of(browser, "/settings")


async def test_a_maintenance_window_is_of_the_viewers_zone(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    browser.headers["cookie"] += "; onbeat-zone=Europe/Berlin"
    fields = {"match": "*", "from": "2026-03-03T02:00", "until": "2026-03-03T04:00"}
    body = urlencode({"proof": proof_of_session(browser), **fields}).encode()
    answer = await browser.send("POST", "/alerts/silence", body, content_type=FORM)
    assert (answer.status, answer.headers["location"]) == (303, "/alerts")
    (made,) = await office.harness.store.silences(office.harness.clock.at)
    assert f"{made.starts_at:%d %H:%M} {made.until:%d %H:%M}" == "03 01:00 03 03:00"


def proof_of_session(browser: RestClient) -> str:
    cookie = browser.headers["cookie"].partition(";")[0]
    return proof(RestClient(browser.app, cookie=cookie))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"match": "*"}, "Say for how long"),
        ({"match": "*", "until": "soon"}, "until: this must be a date and time"),
        ({"match": "*", "until": "2026-03-01T00:00"}, "until is not within"),
        ({"match": "", "for": "1h"}, "match"),
    ],
)
async def test_what_is_wrong_with_a_silence_is_said(
    office: DashboardOffice, fields: dict[str, str], words: str
) -> None:
    answer = await send(await office.session(ADMIN), "/alerts/silence", **fields, note="kept")
    page = answer.body.decode()
    assert answer.status == 422
    assert words in page.partition('role="alert"')[2]
    assert 'value="kept"' in page


async def test_a_key_that_only_reads_silences_nothing(office: DashboardOffice) -> None:
    browser = await office.session(READ)
    assert "/alerts/silence" not in await page_of(browser, "/alerts")
    answer = await send(browser, "/alerts/silence", match="*", **{"for": "1h"})
    assert answer.status == 403
    assert await office.harness.store.silences(office.harness.clock.at) == []


# A session that ended


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/alerts/silence", "/alerts"),
        ("/queues/mail/limits", "/queues"),
        ("/jobs/new", "/jobs/new"),
        ("/jobs/7/reschedule", "/jobs/7"),
        ("/schedules/7/edit", "/schedules/7/edit"),
        ("/failures/7/note", "/failures/7"),
    ],
)
async def test_a_form_of_an_ended_session_leads_to_the_log_in(
    office: DashboardOffice, path: str, page: str
) -> None:
    browser = await office.session(ADMIN)
    office.harness.move(days=60)
    answer = await send(browser, path, match="*")
    assert answer.status == 303
    assert answer.headers["location"] == f"/login?next={page.replace('/', '%2F')}"
    without = RestClient(browser.app)
    answer = await without.send("POST", path, b"match=*", content_type=FORM, accept=PAGE)
    assert answer.status == 303


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/jobs/new", {"content_type": FORM, "accept": "*/*"}),
        ("/jobs/new", {"content_type": "application/json", "accept": PAGE}),
        ("/logout", {"content_type": FORM, "accept": PAGE}),
        ("/api/jobs", {"content_type": FORM, "accept": PAGE}),
    ],
)
async def test_a_script_of_an_ended_session_gets_the_error(
    office: DashboardOffice, path: str, headers: dict[str, str]
) -> None:
    browser = await office.session(ADMIN)
    office.harness.move(days=60)
    answer = await browser.send("POST", path, b"a=b", **headers)
    assert (answer.status, answer.headers["content-type"]) == (401, "application/json")
