"""The page of one queue: its groups, and a pause with a note."""

from typing import Any
from urllib.parse import urlencode

from dashboard.office import FORM, READ, DashboardOffice, proof
from interfaces.rest_client import Response, RestClient
from onbeat.model.limits import GROUPS_LOOK_MAX, GROUPS_SHOWN_MAX, PAUSE_NOTE_CHARS_MAX
from onbeat.operations.tables.fleet import QUEUE_LIMIT, QUEUE_SHOW
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_WHY


async def pause(browser: RestClient, note: str) -> Response:
    fields = urlencode({"proof": proof(browser), "note": note}).encode()
    return await browser.send("POST", "/queues/slow/pause", fields, content_type=FORM)


async def waiting(office: DashboardOffice, groups: dict[str, int]) -> None:
    jobs: list[dict[str, Any]] = [
        {"task": "mail", "queue": "slow", "group": group}
        for group, count in groups.items()
        for _ in range(count)
    ]
    for at in range(0, len(jobs), 1_000):
        await office.harness.ask(JOB_ENQUEUE, {"jobs": jobs[at : at + 1_000]})


async def test_a_pause_tells_who_since_when_and_why() -> None:
    office = DashboardOffice()
    made = await office.harness.ask(JOB_ENQUEUE, {"task": "mail", "queue": "slow"})
    browser = await office.session()
    answer = await pause(browser, "  the bank <is> shut ")
    assert (answer.status, answer.headers["location"]) == (303, "/queues/slow")
    for path in ("/queues/slow", "/queues"):
        page = (await browser.get(path)).body.decode()
        assert "by boss since" in page
        assert "the bank &lt;is&gt; shut" in page
    why = await office.harness.ask(JOB_WHY, id=made["id"])
    assert why["code"] == "queue_paused"
    assert why["explanation"].startswith("Its queue slow is paused by boss since 20")
    assert "Z: the bank <is> shut" in why["explanation"]


async def test_a_note_that_is_too_long_is_refused_and_kept() -> None:
    browser = await DashboardOffice().session()
    note = "x" * (PAUSE_NOTE_CHARS_MAX + 1)
    answer = await pause(browser, note)
    assert answer.status in {400, 422}
    assert f'value="{note}"' in answer.body.decode()
    assert (await pause(browser, note[1:])).status == 303


async def test_a_key_that_only_reads_cannot_pause() -> None:
    office = DashboardOffice()
    browser = await office.session(READ)
    assert (await pause(browser, "")).status == 403
    assert "Pause" not in (await browser.get("/queues/slow")).body.decode()


async def test_the_groups_with_most_waiting_jobs_are_shown() -> None:
    office = DashboardOffice()
    sizes = {f"group {number:02}": number for number in range(1, GROUPS_SHOWN_MAX + 3)}
    await waiting(office, sizes)
    await office.harness.ask(QUEUE_LIMIT, {"fair": True}, name="slow")
    page = (await (await office.session(READ)).get("/queues/slow")).body.decode()
    assert "22 with waiting jobs; the 20 with most" in page
    assert page.index("<b>group 22</b>") < page.index("<b>group 21</b>")
    assert "<b>group 02</b>" not in page


async def test_more_jobs_than_are_looked_at_are_told() -> None:
    office = DashboardOffice()
    await waiting(office, {"a": GROUPS_LOOK_MAX})
    assert (await office.harness.ask(QUEUE_SHOW, name="slow"))["groups_more"] is False
    await waiting(office, {"b": 1})
    found = await office.harness.ask(QUEUE_SHOW, name="slow")
    assert (found["groups_more"], found["groups"][0]["waiting"]) == (True, GROUPS_LOOK_MAX)
    page = (await (await office.session(READ)).get("/queues/slow")).body.decode()
    assert "Of the first 5,000 waiting and 5,000 running jobs: there are more." in page


async def test_a_queue_without_groups_tells_none() -> None:
    office = DashboardOffice()
    await office.harness.ask(JOB_ENQUEUE, {"task": "mail", "queue": "slow"})
    found = await office.harness.ask(QUEUE_SHOW, name="slow")
    assert (found["waiting"], found["groups"], found["groups_waiting"]) == (1, [], 0)
    page = (await (await office.session(READ)).get("/queues/slow")).body.decode()
    assert "Groups" not in page
