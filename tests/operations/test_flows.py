"""Jobs of one request that come after one another, as a surface asks for them."""

from typing import Any

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Failed, Succeeded
from onbeat.operations.tables.flows import FLOW_CANCEL
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_RETRY, JOB_SHOW, JOB_WHY
from onbeat.ports.store import Settlement
from onbeat.rules.settlement import attempt_of, settle
from onbeat.stores.memory import MemoryStore
from operations.harness import OperationsHarness

PIPELINE: list[dict[str, Any]] = [
    {"name": "join", "task": "work", "after": ["left", {"job": "right", "on": "end"}]},
    {"name": "left", "task": "work", "after": ["fetch"]},
    {"name": "right", "task": "work", "after": ["fetch"]},
    {"name": "repair", "task": "work", "after": [{"job": "join", "on": "failure"}]},
    {"name": "fetch", "task": "work"},
]
FAILURE = Failed("it broke", retryable=False)


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def enqueue(office: OperationsHarness, *jobs: dict[str, Any]) -> dict[str, str]:
    """The ids by name."""
    answer = await office.ask(JOB_ENQUEUE, {"jobs": jobs})
    return {job["name"]: id for job, id in zip(jobs, answer["ids"], strict=True)}


async def run(office: OperationsHarness, *ends: Any) -> list[str]:
    """Run what may start, each to its end; returns the ids."""
    jobs = await office.claim("work")
    now = office.clock.now()
    for job, outcome in zip(jobs, ends or [Succeeded()] * len(jobs), strict=True):
        ended = Settlement(
            job=settle(job, outcome, now, 0.0), attempt=attempt_of(job, outcome, now)
        )
        assert list(await office.store.settle([ended])) == [True]
    return [job.id for job in jobs]


async def test_names_are_resolved_in_any_order(office: OperationsHarness) -> None:
    ids = await enqueue(office, *PIPELINE)
    shown = await office.ask(JOB_SHOW, id=ids["join"])
    assert shown["name"] == "join"
    assert shown["after"] == [ids["left"], {"job": ids["right"], "on": "end"}]
    assert await run(office) == [ids["fetch"]]
    assert {*await run(office, Succeeded(), FAILURE)} == {ids["left"], ids["right"]}
    assert await run(office) == [ids["join"]]
    repair = await office.ask(JOB_SHOW, id=ids["repair"])
    assert (repair["state"], repair["cause_id"]) == ("cancelled", ids["join"])


async def test_why_names_the_unfinished_and_the_wanted_end(office: OperationsHarness) -> None:
    ids = await enqueue(office, *PIPELINE)
    answer = await office.ask(JOB_WHY, id=ids["join"])
    assert answer["waits_for"] == [ids["left"], ids["right"]]
    assert f"{ids['left']} to succeed, {ids['right']} to end." in answer["explanation"]


async def test_a_request_names_stored_jobs_too(office: OperationsHarness) -> None:
    first = (await office.ask(JOB_ENQUEUE, {"task": "work"}))["id"]
    second = {"task": "work", "after": [{"job": first.upper(), "on": "failure"}]}
    id = (await office.ask(JOB_ENQUEUE, second))["id"]
    shown = await office.ask(JOB_SHOW, id=id)
    assert shown["after"] == [{"job": first, "on": "failure"}]


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([{"name": "a", "task": "t", "after": ["b"]}], "jobs[0].after"),
        ([{"name": "a", "task": "t"}, {"name": "a", "task": "t"}], "jobs[1].name"),
        (
            [
                {"name": "a", "task": "t", "after": ["b"]},
                {"name": "b", "task": "t", "after": ["a"]},
            ],
            "jobs[0].after",
        ),
    ],
)
async def test_a_fault_in_a_flow_is_named_and_nothing_is_stored(
    office: OperationsHarness, jobs: list[dict[str, Any]], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await office.ask(JOB_ENQUEUE, {"jobs": jobs})
    assert caught.value.field == field
    assert not await office.claim("t")


class StartsAfterTheFirstLook:
    """A store in which the first job starts once its jobs have been listed."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.office: OperationsHarness | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def jobs(self, filter: Any) -> Any:
        page = await self.store.jobs(filter)
        if self.office is not None:
            office, self.office = self.office, None
            await office.claim("work", limit=1)
        return page


async def test_a_cancel_meets_a_job_that_starts_meanwhile() -> None:
    store = StartsAfterTheFirstLook(MemoryStore())
    office = OperationsHarness(store)
    jobs = [{"name": name, "task": "work"} for name in ("a", "b", "c")]
    answer = await office.ask(JOB_ENQUEUE, {"jobs": jobs})
    store.office = office
    change = await office.ask(FLOW_CANCEL, id=answer["flow"])
    assert change["changed"] == 3
    assert change["counts"] == {
        "running": 1,
        "waiting": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 2,
    }
    started = await office.ask(JOB_SHOW, id=answer["ids"][0])
    assert (started["state"], started["cancel_reason"]) == ("running", "cancelled by request")


async def test_one_job_cannot_name_another(office: OperationsHarness) -> None:
    with pytest.raises(Invalid, match="no job of this request is named 'b'"):
        await office.ask(JOB_ENQUEUE, {"task": "t", "after": ["b"]})


@pytest.mark.parametrize(
    ("body", "state"), [(None, "waiting"), ({"dependents": False}, "cancelled")]
)
async def test_a_retry_brings_back_dependents_unless_told_otherwise(
    office: OperationsHarness, body: Any, state: str
) -> None:
    ids = await enqueue(office, *PIPELINE)
    await run(office, FAILURE)
    assert (await office.ask(JOB_SHOW, id=ids["repair"]))["state"] == "cancelled"
    await office.ask(JOB_RETRY, body, id=ids["fetch"])
    for name in ("left", "right", "join", "repair"):
        assert (await office.ask(JOB_SHOW, id=ids[name]))["state"] == state
