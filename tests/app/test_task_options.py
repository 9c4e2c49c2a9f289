"""Every option of a task counts in every way to send a job of it, and so does what a caller adds."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner

from interfaces.rest_client import RestClient
from onbeat import Onbeat, Retry, every
from onbeat.api.asgi import build_api
from onbeat.app.call import TaskOptions
from onbeat.app.listener import Server
from onbeat.cli.main import root
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import LABELS_MAX
from onbeat.model.schedule import Schedule, ScheduleSpec

TASK_LABELS = {"team": "data", "kind": "slow"}
GIVEN: Mapping[str, Any] = {
    "queue": "mail",
    "priority": 3,
    "retry": Retry(7, delay="2s"),
    "timeout": "5s",
    "condition": "job.queue == 'mail'",
    "window": "22:00-06:00 UTC",
    "sensitive": True,
    "labels": TASK_LABELS,
    "group": "acme",
    "unique_for": "2d",
}
OWN = {"team": "mail", "run": "7"}
KEYED = {"task": "work", "unique": "u"}


class Served:
    """A program that declares a task and runs none, with its service."""

    def __init__(self, beat: Onbeat, task: Any, url: str) -> None:
        self.beat, self.task, self.url = beat, task, url
        self.context = beat.backend.context
        self.rest = RestClient(build_api(self.context))

    async def stored(self, id: str) -> Job:
        job = await self.context.store.job(JobId(id))
        assert job is not None
        return job

    async def stored_schedule(self, id: str) -> Schedule:
        schedule = await self.context.store.schedule(ScheduleId(id))
        assert schedule is not None
        return schedule


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    beat = Onbeat("memory://")

    @beat.task("work", **GIVEN)
    def work() -> None: ...

    server = Server(
        uvicorn.Config(build_api(beat.backend.context), port=0, lifespan="off", log_config=None)
    )
    serving = asyncio.create_task(server.serve())
    await server.listens.wait()
    yield Served(beat, work, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
    server.should_exit = True
    await serving
    await beat.aclose()


async def by_send(served: Served, labels: Mapping[str, str]) -> Job:
    sent = await served.task.options(unique="u", labels=labels).asend()
    return await served.stored(sent.id)


async def by_client(served: Served, labels: Mapping[str, str]) -> Job:
    client = Onbeat(served.url)

    @client.task("work", **GIVEN)
    def work() -> None: ...

    sent: Any = await work.options(unique="u", labels=labels).asend()
    await client.aclose()
    return await served.stored(sent.id)


async def by_rest(served: Served, labels: Mapping[str, str]) -> Job:
    answer = await served.rest.post("/api/jobs", KEYED | {"labels": labels})
    return await served.stored(answer.json["id"])


async def by_submission(served: Served, labels: Mapping[str, str]) -> Job:
    request = {
        "jsonrpc": "2.0",
        "method": "submit:work",
        "onbeat": {"unique": "u", "labels": labels},
        "id": 1,
    }
    answer = await served.rest.post("/rpc", request)
    return await served.stored(answer.json["result"]["id"])


async def by_command(served: Served, labels: Mapping[str, str]) -> Job:
    args = ["job", "add", "--server", served.url, "--task", "work", "--unique", "u"]
    for name, value in labels.items():
        args += ["--label", f"{name}={value}"]
    result = await asyncio.to_thread(CliRunner().invoke, root, args)
    assert result.exit_code == 0, result.output
    return await served.stored(result.stdout.strip())


async def by_put(served: Served, labels: Mapping[str, str]) -> Schedule:
    id = await served.beat.schedules.aput("k", every("1h"), served.task.call(), labels=labels)
    return await served.stored_schedule(id)


async def by_rest_schedule(served: Served, labels: Mapping[str, str]) -> Schedule:
    body = {"name": "k", "every": "1h", "target": {"task": "work"}, "labels": labels}
    answer = await served.rest.post("/api/schedules", body)
    return await served.stored_schedule(answer.json["id"])


async def by_schedule_command(served: Served, labels: Mapping[str, str]) -> Schedule:
    args = ["schedule", "add", "k", "--server", served.url, "--every", "1h", "--task", "work"]
    for name, value in labels.items():
        args += ["--label", f"{name}={value}"]
    result = await asyncio.to_thread(CliRunner().invoke, root, args)
    assert result.exit_code == 0, result.output
    return await served.stored_schedule(result.stdout.strip())


WAYS = [
    by_send,
    by_client,
    by_rest,
    by_submission,
    by_command,
    by_put,
    by_rest_schedule,
    by_schedule_command,
]


def declared(task: Any) -> dict[str, Any]:
    fields = task.call().options.job
    retry = {"retry": GIVEN["retry"]}
    return {name: getattr(fields, name) for name in GIVEN if name != "retry"} | retry


def test_the_options_here_are_all_of_a_task() -> None:
    assert set(GIVEN) == set(TaskOptions.__annotations__)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_task_gives_its_options(served: Served, way: Any) -> None:
    made = await way(served, {})
    wanted = declared(served.task)
    if isinstance(made, Schedule):
        wanted = {name: wanted[name] for name in wanted if name in ScheduleSpec.__struct_fields__}
    assert {name: getattr(made, name) for name in wanted} == wanted
    assert wanted["timeout"] == timedelta(seconds=5)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_labels_of_the_caller_win_by_name(served: Served, way: Any) -> None:
    assert (await way(served, OWN)).labels == {"team": "mail", "kind": "slow", "run": "7"}


async def test_an_update_of_a_schedule_has_the_last_word(served: Served) -> None:
    made = await by_rest_schedule(served, OWN)
    await served.rest.put(f"/api/schedules/{made.id}", {"labels": {"a": "b"}})
    assert (await served.stored_schedule(made.id)).labels == {"a": "b"}


async def test_labels_of_both_have_one_bound(served: Served) -> None:
    many = {f"l{number}": "x" for number in range(LABELS_MAX - 1)}
    answer = await served.rest.post("/api/jobs", {"jobs": [{"task": "work", "labels": many}]})
    assert (answer.status, answer.error["field"]) == (422, "jobs[0].labels")
    with pytest.raises(Invalid, match="labels may have at most"):
        served.task.options(labels=many)
