"""The page of a flow: a graph of a small one, levels of a large one."""

import re
from typing import Any

from dashboard.office import READ, DashboardOffice
from onbeat.model.limits import GRAPH_JOBS_MAX, GRAPH_LINKS_MAX, PAGE_LIMIT_MAX
from onbeat.model.outcome import Failed
from onbeat.operations.tables.flows import FLOW_LIST
from onbeat.operations.tables.jobs import JOB_ENQUEUE


async def flow_page(office: DashboardOffice, jobs: list[dict[str, Any]]) -> str:
    made = await office.harness.ask(JOB_ENQUEUE, {"flow": True, "jobs": jobs})
    answer = await (await office.session(READ)).get(f"/flows/{made['flow']}")
    assert answer.status == 200
    return answer.body.decode()


def named(name: str, *after: Any) -> dict[str, Any]:
    return {"task": "work", "name": name, **({"after": after} if after else {})}


def fan(count: int) -> list[dict[str, Any]]:
    return [named("start"), *(named(f"part {n}", "start") for n in range(count - 1))]


async def test_a_small_flow_is_a_graph_and_the_same_as_a_list() -> None:
    jobs = [named("a"), named("b", "a"), named("c", {"job": "a", "on": "failure"}, "b")]
    page = await flow_page(DashboardOffice(), jobs)
    assert 'aria-label="3 jobs in 3 layers"' in page
    assert len(re.findall(r'class="node wait"', page)) == 3
    listed = page[page.index("As a list") :]
    assert re.findall(r"Layer \d", listed) == ["Layer 1", "Layer 2", "Layer 3"]
    assert ", after a (failure), b" in re.sub("<[^>]*>", "", listed)


async def test_the_largest_graph_has_its_bound_of_jobs() -> None:
    page = await flow_page(DashboardOffice(), fan(GRAPH_JOBS_MAX))
    assert f'aria-label="{GRAPH_JOBS_MAX} jobs in 2 layers"' in page
    page = await flow_page(DashboardOffice(), fan(GRAPH_JOBS_MAX + 1))
    assert "<h2>Levels</h2>" in page
    assert "waiting 200" in page
    assert "What the others wait for" in page


async def test_too_many_links_are_not_drawn() -> None:
    many = GRAPH_LINKS_MAX // 20
    firsts = [named(f"first {n}") for n in range(many)]
    names = [one["name"] for one in firsts]
    lasts = [named(f"last {n}", *names) for n in range(20)]
    assert f'aria-label="{many + 20} jobs' in await flow_page(DashboardOffice(), [*firsts, *lasts])
    more = named("one more", "first 0")
    page = await flow_page(DashboardOffice(), [*firsts, *lasts, more])
    assert "<h2>Levels</h2>" in page
    assert "and 45 more" in page


async def test_a_flow_beyond_one_answer_says_what_was_left_out() -> None:
    page = await flow_page(DashboardOffice(), fan(PAGE_LIMIT_MAX + 5))
    assert "Of the 1,000 jobs that were looked at" in page
    assert "5 others are left out" in page


async def test_a_job_leads_to_its_whole_flow() -> None:
    office = DashboardOffice()
    made = await office.harness.ask(JOB_ENQUEUE, {"flow": True, "jobs": fan(2)})
    page = (await (await office.session(READ)).get(f"/jobs/{made['ids'][0]}")).body.decode()
    assert f'href="/flows/{made["flow"]}">whole flow</a>' in page


async def test_flows_are_listed_newest_first_with_how_far_each_is() -> None:
    office = DashboardOffice()
    jobs = [{"task": "fetch", "name": "a"}, {"task": "clean", "after": ["a"]}]
    made = [await office.harness.ask(JOB_ENQUEUE, {"jobs": jobs}) for _ in range(21)]
    await office.harness.run(Failed("no answer", retryable=False), "fetch")
    reader = await office.session(READ)
    page = (await reader.get("/flows")).body.decode()
    flows = [one["flow"] for one in made]
    assert re.findall(r'href="/flows/([0-9a-f-]{36})"', page) == sorted(flows, reverse=True)[:20]
    assert page.count("0 of 2<progress") == 20, "the oldest has run, and is on the next page"
    (older,) = re.findall(r'href="(/flows\?cursor=[^"]*)"', page)
    rest = (await reader.get(older)).body.decode()
    assert re.findall(r'href="/flows/([0-9a-f-]{36})"', rest) == [min(flows)]
    assert "2 of 2<progress" in rest
    assert 'state=failed">1</a>' in rest


async def test_what_waits_for_the_end_of_a_flow_is_part_of_it() -> None:
    office = DashboardOffice()
    jobs = [{"task": "one", "name": "a"}, {"task": "two"}, {"task": "last", "after": ["sent"]}]
    made = await office.harness.ask(JOB_ENQUEUE, {"jobs": jobs})
    answer = await office.harness.ask(FLOW_LIST, limit="1")
    assert [one["id"] for one in answer["flows"]] == [made["flow"]]
    (one,) = answer["flows"]
    assert (one["counts"]["waiting"], one["last"]["waiting"]) == (2, 1)
    assert (one["state"], answer["cursor"]) == ("running", None)


async def test_without_flows_the_page_says_what_they_are() -> None:
    page = (await (await DashboardOffice().session(READ)).get("/flows")).body.decode()
    assert "No flow has been sent." in page
