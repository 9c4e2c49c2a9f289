"""A fleet within one process: everything that goes over a broker, without a server."""

import asyncio
import json
import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from conditions import eventually
from fleet.conftest import Outside, speaking
from onbeat import Onbeat, Options, message
from onbeat.engine.options import RuntimeOptions
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.role import Role
from onbeat.testing.memory_broker_outage import MemoryBrokerLink
from onbeat.wire.broker_messages import (
    REPLIES,
    RESULTS,
    SUBMIT,
    TOKEN_HEADER,
    run_queue,
    work_queue,
)


@pytest.fixture
def url() -> str:
    return f"memory://flow-{secrets.token_hex(4)}"


class Program:
    def __init__(self, store: str, url: str, roles: frozenset[Role] = frozenset(Role)) -> None:
        options = Options(
            runtime=RuntimeOptions(roles=roles, concurrency=1),
            transport=url,
            connections={"events": url},
            remote_tasks=("export",),
        )
        self.beat = Onbeat(store, options=options)

        @self.beat.task("double")
        async def double(number: int) -> int:
            return 2 * number

        @self.beat.task("hold")
        async def hold() -> None:
            self.holds.set()
            await self.goes_on.wait()

        self.double, self.hold = double, hold
        self.holds, self.goes_on = asyncio.Event(), asyncio.Event()


async def ended(beat: Onbeat, id: JobId) -> Job:
    async def end() -> Job | None:
        job = await beat.backend.store.job(id)
        return job if job.is_final else None

    return await eventually(end, "its end")


async def submitted(outside: Outside, method: str, **params: object) -> str:
    call = {"jsonrpc": "2.0", "method": f"submit:{method}", "params": params, "id": 1}
    await outside.say(SUBMIT, call)
    return json.loads((await outside.next(REPLIES)).body)["result"]["id"]


async def test_one_program_does_everything_over_it(url: str) -> None:
    async with Program("memory://", url).beat as beat, speaking(url) as outside:
        sent = await ended(beat, JobId(await submitted(outside, "double", number=21)))
        assert (sent.state, json.loads(bytes(sent.result))) == (JobState.SUCCEEDED, 42)

        response = await beat.asend(message("events", "orders", {"order": 7}))
        assert (await outside.next("orders")).id == response.id
        assert (await ended(beat, response.id)).state is JobState.SUCCEEDED

        exported = await submitted(outside, "export", objectID=23)
        call = await outside.next(work_queue("default"))
        answer = {"jsonrpc": "2.0", "result": "done", "id": json.loads(call.body)["id"]}
        await outside.say(RESULTS, answer, **{TOKEN_HEADER: call.headers[TOKEN_HEADER]})
        done = await ended(beat, JobId(exported))
        assert (done.state, json.loads(bytes(done.result))) == (JobState.SUCCEEDED, "done")


async def test_a_job_goes_from_one_program_to_another_over_it(url: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'onbeat.db'}"
    async with AsyncExitStack() as stack:
        giver = Program(store, url, frozenset(Role) - {Role.WORKER})
        taker = Program(store, url, frozenset({Role.WORKER}))
        for beat in (giver.beat, taker.beat):
            await stack.enter_async_context(beat)
        outside = await stack.enter_async_context(speaking(url))
        await giver.hold.asend()
        await taker.holds.wait()
        job = await giver.double.asend(21)

        async def announced() -> bool:
            return await outside.broker.depth(run_queue("default")) == 1

        await eventually(announced, "its announcement, while the one slot is taken")
        taker.goes_on.set()
        assert (await ended(giver.beat, job.id)).state is JobState.SUCCEEDED
        assert await outside.broker.depth(run_queue("default")) == 0


async def test_work_goes_on_while_it_is_away(url: str) -> None:
    link = MemoryBrokerLink(url)
    program = Program("memory://", url)
    async with program.beat, speaking(url) as outside:
        await link.disconnect()
        job = await program.double.asend(21)
        assert (await ended(program.beat, job.id)).state is JobState.SUCCEEDED
        await link.reconnect()
        back = await submitted(outside, "double", number=1)
        assert (await ended(program.beat, JobId(back))).state is JobState.SUCCEEDED
