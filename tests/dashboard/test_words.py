"""What pages say where nothing, or something half well, is to be said."""

import re
from importlib.resources import files

import pytest
from msgspec.structs import replace

from dashboard.office import ADMIN, DashboardOffice
from onbeat.ports.checks import Checkup
from onbeat.ports.store import Finding
from onbeat.testing.store_contract.faults import a_change
from operations.harness import NOON, OperationsHarness

TEMPLATES = files("onbeat.dashboard").joinpath("templates")
LISTS = ("now.html", "queues.html", "queue.html", "failures.html", "workers.html", "flows.html")


@pytest.mark.parametrize("name", LISTS)
def test_every_number_of_a_list_has_its_name_on_a_phone(name: str) -> None:
    # There the heads of columns are not shown.
    text = TEMPLATES.joinpath(name).read_text("utf-8")
    cells = re.findall(r'<td class="number".*?</td>', text)
    assert cells
    assert [cell for cell in cells if "data-label=" not in cell] == []


async def test_the_first_page_names_what_its_table_tells() -> None:
    page = (await (await DashboardOffice().session(ADMIN)).get("/")).body.decode()
    assert "Lateness, p95" in page
    assert "95 of 100" not in page


async def test_the_order_of_jobs_is_told() -> None:
    office = DashboardOffice()
    await office.client(**{"x-api-key": ADMIN}).post("/api/jobs", {"task": "work"})
    page = (await (await office.session(ADMIN)).get("/jobs")).body.decode()
    assert "1 job, the newest first, by when they were created" in page


async def test_a_check_that_is_off_is_not_well_and_no_warning() -> None:
    harness = OperationsHarness()
    value = "off: who can read <it> reads credentials; see `secrets.keys`"

    async def examine() -> Checkup:
        finding = Finding(name="encryption at rest", ok=True, value=value)
        return Checkup(at=NOON, findings=(finding,))

    harness.context = replace(harness.context, examine=examine)
    page = (await (await DashboardOffice(harness=harness).session(ADMIN)).get("/settings")).body
    row = page.decode().partition('id="checks"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    assert "</svg>off</span>" in row
    assert "off: who can read &lt;it&gt; reads credentials; see <code>secrets.keys</code>" in row


async def test_a_failure_whose_jobs_have_succeeded_says_where_they_are() -> None:
    office = DashboardOffice()
    await office.harness.store.note_faults([a_change(7)])
    page = (await (await office.session(ADMIN)).get("/failures/7")).body.decode()
    assert "None now. A job that succeeds leaves its failure" in page
