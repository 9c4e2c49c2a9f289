"""A queue in one process that breaks one promise at a time, to try those who watch."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from chaos.journals import journal
from chaos.run import written
from chaos.verdict import POISON, Journals, Record

NUMBER: Final = 3  # the request whose job goes wrong
AT: Final = datetime(2030, 1, 1, tzinfo=UTC)
INSTANTS: Final = [AT + n * timedelta(seconds=1) for n in range(5)]

WRONGS: Final = {
    "forgets a job": "lost",
    "has a job of nobody": "unexpected",
    "leaves a job waiting": "unended",
    "leaves a job running": "unended",
    "fails a job without a cause": "harmed",
    "cancels a job": "harmed",
    "lets poison succeed": "harmed",
    "fails poison without its reason": "harmed",
    "forgets the keys of requests": "doubled",
    "stores a job twice": "doubled",
    "runs a job again after its end": "doubled",
    "gives a token out twice": "doubled",
    "runs a job in two places": "overlapped",
    "takes the result of a stale attempt": "stale",
    "says that a job ran": "stale",
    "forgets an instant": "occurrences",
    "decides twice on an instant": "occurrences",
    "invents an instant": "occurrences",
}
"""By what the queue does wrong: the violation that it is."""


class Queue:
    """Takes requests as the API does, and runs their jobs as tasks, which keep journals.

    The answer to each first request of a key is lost, so that callers repeat it. With `is_killed`
    the process in which the job of `NUMBER` first runs is killed: no wrong, but a recovery.
    """

    def __init__(self, place: Path, wrong: str | None, *, is_killed: bool = False) -> None:
        self.place = place
        self.wrong = wrong
        self.is_killed = is_killed
        self.ids: dict[str, str] = {}
        self.records: dict[str, Record] = {}
        self.kills: list[tuple[str, float]] = []
        self.dispositions = list(INSTANTS)
        self.work: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its address; all jobs have ended when the block has."""
        application = web.Application()
        application.router.add_post("/api/jobs", self.post)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"{host}:{port}"
            await asyncio.gather(*self.work)
        finally:
            await runner.cleanup()

    async def post(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        body = await request.json()
        is_new = key not in self.ids
        if is_new or self.is_wrong("forgets the keys of requests", body):
            self.ids[key] = self.accept(body["task"], body["args"][0])
        if is_new:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"id": self.ids[key]}, status=201)

    def is_wrong(self, wrong: str, body: Any) -> bool:
        return self.wrong == wrong and body["args"][0] == NUMBER

    def accept(self, task: str, number: int) -> str:
        id = f"job-{len(self.records)}-{number}"
        self.records[id] = Record(id, task, "waiting", 0, number)
        self.work.append(asyncio.create_task(self.run(self.records[id])))
        return id

    async def run(self, record: Record) -> None:
        if record.task == POISON and self.wrong != "lets poison succeed":
            told = self.wrong != "fails poison without its reason"
            reason = "poison: its worker died 3 times" if told else "attempts used up"
            self.change(record, state="failed", reason=reason)
        elif record.number != NUMBER:
            self.succeed(record, await self.attempt(record))
        elif self.is_killed:
            await self.recover(record)
        else:
            await self.go_wrong(record)

    async def attempt(self, record: Record, token: int = 1, process: str = "w1") -> int:
        journal(self.place / "began", record.id, token, process, time.monotonic())
        await asyncio.sleep(0.001)
        journal(self.place / "ended", record.id, token, process, time.monotonic())
        return token

    def succeed(self, record: Record, token: int, **fields: Any) -> None:
        self.change(record, state="succeeded", token=token, **{"result": token, **fields})

    def change(self, record: Record, **fields: Any) -> None:
        self.records[record.id] = replace(self.records[record.id], **fields)

    async def recover(self, record: Record) -> None:
        journal(self.place / "began", record.id, 1, "w1", time.monotonic())
        self.kills.append(("w1", time.monotonic()))
        self.succeed(record, await self.attempt(record, 2, "w2"), lost=frozenset({1}))

    async def go_wrong(self, record: Record) -> None:
        match self.wrong:
            case "forgets a job":
                del self.records[record.id]
                return
            case "leaves a job waiting":
                return
            case "leaves a job running":
                self.change(record, state="running", token=1)
                return
            case "says that a job ran":
                self.succeed(record, 1)
                return
            case "runs a job in two places":
                await asyncio.gather(self.attempt(record), self.attempt(record, 2, "w2"))
                self.succeed(record, 2)
                return
            case "fails a job without a cause" | "cancels a job":
                state = "cancelled" if self.wrong == "cancels a job" else "failed"
                self.change(record, state=state, token=await self.attempt(record))
                return
        self.succeed(record, await self.attempt(record))
        await self.go_wrong_after_end(record)

    async def go_wrong_after_end(self, record: Record) -> None:
        match self.wrong:
            case "runs a job again after its end":
                await self.attempt(record, 2)
            case "gives a token out twice":
                await self.attempt(record, 1, "w2")
            case "takes the result of a stale attempt":
                self.succeed(record, await self.attempt(record, 2), result=1)
            case "stores a job twice":
                self.records["twin"] = replace(self.records[record.id], id="twin")
                await self.attempt(self.records["twin"])
            case "has a job of nobody":
                self.records["x"] = replace(self.records[record.id], id="x", number=999)
                await self.attempt(self.records["x"])
            case _:
                self.decide_wrong()

    def decide_wrong(self) -> None:
        match self.wrong:
            case "forgets an instant":
                self.dispositions.pop()
            case "decides twice on an instant":
                self.dispositions.append(AT)
            case "invents an instant":
                self.dispositions.append(AT + timedelta(seconds=0.5))

    def journals(self) -> Journals:
        return written(
            self.place,
            records=self.records,
            kills=self.kills,
            wanted=INSTANTS,
            dispositions=self.dispositions,
        )
