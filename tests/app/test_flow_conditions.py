"""Conditions of jobs that come after others, as a caller of the REST interface writes them."""

from typing import Any

from conditions import eventually
from interfaces.rest_client import RestClient
from onbeat import Context, Onbeat, Retry
from onbeat.api.asgi import build_api
from onbeat.model.job import JobState

IF_ROWS = "after.left.result.rows > 0"
IF_BROKEN = "after.right.state == 'failed' && after.right.error.contains('of its own')"
ENDED = {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


def flow(condition: dict[str, Any]) -> dict[str, Any]:
    return {
        "jobs": [
            {"name": "fetch", "task": "fetch"},
            {"name": "left", "task": "left", "after": ["fetch"]},
            {"name": "right", "task": "right", "after": ["fetch"]},
            {
                "name": "join",
                "task": "join",
                "after": ["left", {"job": "right", "on": "end"}],
                "condition": condition,
            },
            {"name": "repair", "task": "repair", "after": [{"job": "join", "on": "failure"}]},
        ]
    }


def program(rows: int) -> Onbeat:
    beat = Onbeat("memory://")

    @beat.task("fetch")
    def fetch() -> None: ...

    @beat.task("left")
    def left() -> dict[str, int]:
        return {"rows": rows}

    @beat.task("right", retry=Retry(1))
    def right() -> None:
        raise ValueError("of its own")

    @beat.task("join")
    def join(context: Context) -> list[str]:
        return sorted(context.after)

    @beat.task("repair")
    def repair() -> None: ...

    return beat


async def ends_of(rows: int, condition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The jobs of the flow by name, when all of them have ended."""
    beat = program(rows)
    client = RestClient(build_api(beat.backend.context))
    async with beat:
        answer = await client.post("/api/jobs", flow(condition))
        assert answer.status == 201, answer.body
        jobs: dict[str, dict[str, Any]] = {}

        async def have_ended() -> bool:
            for id in answer.json["ids"]:
                job = (await client.get(f"/api/jobs/{id}")).json
                jobs[job["name"]] = job
            return all(job["state"] in ENDED for job in jobs.values())

        await eventually(have_ended, "all jobs have ended")
        return jobs


async def test_results_of_others_decide() -> None:
    jobs = await ends_of(3, {"if": IF_ROWS})
    assert jobs["join"]["state"] == "succeeded"
    assert jobs["join"]["result"] == ["left", "right"]
    assert jobs["repair"]["state"] == "cancelled"


async def test_results_of_others_forbid() -> None:
    jobs = await ends_of(0, {"if": IF_ROWS})
    assert jobs["join"]["state"] == "cancelled"
    assert jobs["join"]["reason"] == f"condition is false: {IF_ROWS}"


async def test_the_end_of_another_decides() -> None:
    assert (await ends_of(0, {"if": IF_BROKEN}))["join"]["state"] == "succeeded"


async def test_a_job_knows_only_those_that_it_comes_after() -> None:
    join = (await ends_of(3, {"if": "has(after.left) && !has(after.fetch)"}))["join"]
    assert join["state"] == "succeeded"
