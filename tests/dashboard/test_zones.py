"""In whose zone a page tells the time."""

from dashboard.office import ADMIN, DashboardOffice
from interfaces.rest_client import RestClient

NEW_YORK = "America/New_York"


async def traveller(office: DashboardOffice) -> RestClient:
    session = (await office.session(ADMIN)).headers["cookie"]
    return office.client(cookie=f"{session}; onbeat-zone={NEW_YORK}")


async def made(office: DashboardOffice, path: str, body: object) -> str:
    client = office.client(**{"x-api-key": ADMIN})
    return str((await client.post(path, body)).json["id"])


async def test_why_a_job_waits_is_told_on_the_clock_of_the_viewer() -> None:
    office = DashboardOffice()
    id = await made(office, "/api/jobs", {"task": "work", "delay": "1h"})
    page = (await (await traveller(office)).get(f"/jobs/{id}")).body.decode()
    headline = page.partition("<h2>")[2].partition("</h2>")[0]
    assert headline.startswith("It is due at ")
    assert f" {NEW_YORK}. " in headline
    assert f"({NEW_YORK})." in page.partition("It may run from ")[2].partition("</p>")[0]


async def test_a_schedule_without_a_zone_has_its_times_in_utc_beside() -> None:
    office = DashboardOffice()
    body = {"name": "s", "cron": "30 2 * * *", "target": {"task": "work"}}
    id = await made(office, "/api/schedules", body)
    page = (await (await traveller(office)).get(f"/schedules/{id}")).body.decode()
    assert f"{NEW_YORK}, then UTC" in page
    assert " 02:30:00 UTC" in page
    assert "yours" not in page
