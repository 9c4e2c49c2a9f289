"""The list of jobs: its search, and what it offers to whom."""

import re
from urllib.parse import urlencode

import pytest

from dashboard.office import READ, DashboardOffice
from onbeat.dashboard.job_picks import PICKS_MAX, in_words, named
from onbeat.dashboard.pages.jobs import ROWS_MAX
from onbeat.model.job import JobState
from onbeat.model.limits import COUNTED_JOBS_MAX
from onbeat.model.outcome import Failed
from onbeat.model.pulse import Depth, EndedCounts, Gauges
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.testing.build import NOW, a_job
from onbeat.wire.requests import StateCount


def jobs_path(**filters: str) -> str:
    return f"/jobs?{urlencode(filters)}"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("mail", "/jobs?task=mail"),
        ("state:failed task:billing.*", "/jobs?state=failed&task=billing.%2A"),
        ("label:a:b label:c:d", "/jobs?label=a%3Ab%2Cc%3Ad"),
        ('"no answer" since:2h', "/jobs?error=no+answer&since=2h"),
        ("0190FFFF-0000-7000-8000-000000000001", "/jobs/0190FFFF-0000-7000-8000-000000000001"),
    ],
)
async def test_a_search_leads_to_the_address_of_its_filters(line: str, path: str) -> None:
    browser = await DashboardOffice().session()
    answer = await browser.get(jobs_path(q=line))
    assert (answer.status, answer.headers["location"]) == (303, path)


async def test_a_search_that_is_wrong_says_where() -> None:
    browser = await DashboardOffice().session()
    answer = await browser.get(jobs_path(q="state:failed colour:red"))
    assert answer.status == 422
    assert "Character 14: colour: is no filter" in answer.body.decode()
    assert 'value="state:failed colour:red"' in answer.body.decode()


async def test_filters_are_those_of_the_api() -> None:
    office = DashboardOffice()
    wanted = a_job("mail", labels={"run": "7"}, queue="slow", error="Timeout: no answer")
    await office.harness.store.enqueue([wanted, a_job("other")])
    browser = await office.session()
    for filters in (
        {"label": "run:7"},
        {"task": "ma*"},
        {"queue": "slow"},
        {"since": "2020-01-01"},
    ):
        answer = await browser.get(jobs_path(**filters))
        assert answer.status == 200
        assert f'value="{wanted.id}"' in answer.body.decode(), filters
    assert wanted.id not in (await browser.get(jobs_path(label="run:8"))).body.decode()
    assert (await browser.get(jobs_path(since="whenever"))).status == 422


async def test_a_page_has_so_many_rows_at_most() -> None:
    office = DashboardOffice()
    await office.harness.store.enqueue([a_job() for _ in range(ROWS_MAX + 1)])
    browser = await office.session()
    for wanted, shown in (("1000", ROWS_MAX), ("7", 7)):
        body = (await browser.get(jobs_path(limit=wanted))).body.decode()
        assert body.count("data-job ") == shown
        assert "Older jobs" in body


async def test_search_says_how_far_it_looked() -> None:
    office = DashboardOffice()
    await office.harness.store.enqueue([a_job("mail") for _ in range(50_001)])
    browser = await office.session()
    answer = await browser.get(jobs_path(queue="rare"))
    assert "None of the 50,000 jobs looked at since" in answer.body.decode()
    assert "Search on" in answer.body.decode()
    found = re.search(r'href="(/jobs\?[^"]*cursor=[^"]*)"', answer.body.decode())
    assert found is not None
    on = await browser.get(found[1].replace("&amp;", "&"))
    assert "No job matches." in on.body.decode()


async def test_a_key_that_only_reads_has_no_bulks() -> None:
    office = DashboardOffice()
    await office.harness.store.enqueue([a_job("mail")])
    page = (await (await office.session(READ)).get("/jobs")).body.decode()
    assert "data-bulk" not in page
    assert "data-job" not in page
    assert "bulk.js" not in page


async def test_a_filter_by_state_offers_what_fits_it() -> None:
    office = DashboardOffice()
    await office.harness.store.enqueue([a_job("mail")])
    browser = await office.session()
    page = (await browser.get(jobs_path(state=str(JobState.WAITING)))).body.decode()
    assert 'data-bulk="cancel"' in page
    assert 'data-bulk="retry"' not in page


async def counts(office: DashboardOffice, **filters: str) -> str:
    page = (await (await office.session(READ)).get(jobs_path(**filters))).body.decode()
    found = re.search(r'<p class="counts">(.*?)</p>', page)
    assert found is not None, page
    return re.sub("<[^>]*>", "", found[1])


async def test_each_state_is_counted_and_leads_to_its_list() -> None:
    office = DashboardOffice()
    for draft in ({"task": "mail", "queue": "slow"}, {"task": "mail"}, {"task": "call"}):
        await office.harness.ask(JOB_ENQUEUE, draft)
    await office.harness.run(Failed("no", retryable=False), "call")
    assert await counts(office) == "1 failed · 2 waiting"
    assert await counts(office, state="failed", queue="slow") == "1 waiting"
    assert await counts(office, task="ma*") == "2 waiting"
    page = (await (await office.session(READ)).get(jobs_path(task="ma*"))).body.decode()
    assert 'href="/jobs?task=ma%2A&amp;state=waiting">2 waiting</a>' in page


async def test_what_is_too_much_to_count_is_told_from_the_sample_or_as_more() -> None:
    office = DashboardOffice()
    await office.harness.store.enqueue([a_job() for _ in range(COUNTED_JOBS_MAX + 1)])
    assert await counts(office) == "more than 10,000 waiting"
    ended = EndedCounts(at=NOW, took=0.0, jobs={"succeeded": 1_234_567, "failed": 38})
    depth = Depth(waiting=12_400)
    sample = Gauges(at=NOW, total=depth, queues={"default": depth}, ended=ended)
    await office.harness.store.put_sample(10, sample)
    assert await counts(office) == "about 12 k waiting · about 1.2 M succeeded"
    assert await counts(office, queue="default") == "about 12 k waiting"
    assert in_words(StateCount(count=3, more=True)) == "3 or more"


async def test_a_pick_goes_into_the_search() -> None:
    office = DashboardOffice()
    browser = await office.session()
    pick = {"queue": "slow", "queue_was": "", "task": "", "task_was": ""}
    answer = await browser.get(jobs_path(q="state:failed", **pick))
    assert answer.headers["location"] == "/jobs?state=failed&queue=slow"
    answer = await browser.get(jobs_path(q="queue:slow", **{**pick, "queue_was": "slow"}))
    assert answer.headers["location"] == "/jobs?queue=slow"
    gone = {**pick, "queue": "", "queue_was": "slow"}
    answer = await browser.get(jobs_path(q="queue:slow task:mail", **gone))
    assert answer.headers["location"] == "/jobs?task=mail"
    typed = {**pick, "queue": "slow", "queue_was": "slow"}
    answer = await browser.get(jobs_path(q="queue:other", **typed))
    assert answer.headers["location"] == "/jobs?queue=other"
    assert (await browser.get(jobs_path(q="", **{**pick, "queue": ""}))).headers[
        "location"
    ] == "/jobs"


async def test_known_tasks_and_queues_can_be_picked() -> None:
    office = DashboardOffice()
    await office.harness.hire("mail", "call")
    sample = Gauges(at=NOW, queues={"slow": Depth()}, unknown_tasks={"lost": 3})
    await office.harness.store.put_sample(10, sample)
    page = (await (await office.session(READ)).get(jobs_path(queue="typed"))).body.decode()
    assert re.findall(r'<option value="(\w*)"( selected)?', page) == [
        ("", ""),
        ("typed", " selected"),
        ("slow", ""),
        ("", ""),
        ("call", ""),
        ("lost", ""),
        ("mail", ""),
    ]


def test_there_are_only_so_many_to_pick_from() -> None:
    names = [f"queue {number:03}" for number in range(PICKS_MAX + 1)]
    assert named(names, None) == names[:PICKS_MAX]
    assert named(names, names[-1]) == [names[-1], *names[:PICKS_MAX]]
