"""Graphile Worker, a queue of Node.js on PostgreSQL, behind the interface of the peers.

npm installs it into .run/graphile when it is first measured. Jobs are sent by its SQL functions,
which its documentation offers to programs in other languages, and run by its own process.
"""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import asyncpg

from benchmarks.bare_postgres import POOL, until_empty

PROGRAM: Final = Path(__file__).with_name("graphile_worker.mjs")
INSTALLED: Final = Path(__file__).parent.parent / ".run" / "graphile"
PACKAGE: Final = "graphile-worker@0.17"
ADD_ONE: Final = "SELECT graphile_worker.add_job('work', '{\"n\": 7}')"
ADD_MANY: Final = """
    SELECT count(*) FROM graphile_worker.add_jobs(array(
      SELECT json_populate_record(null::graphile_worker.job_spec, $1::json)
      FROM generate_series(1, $2)
    ))
"""
SPEC: Final = json.dumps({"identifier": "work", "payload": {"n": 7}})


def install() -> None:
    if not (INSTALLED / "node_modules" / "graphile-worker").exists():
        INSTALLED.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--prefix", str(INSTALLED), PACKAGE]
        subprocess.run(command, check=True)


def installed_version() -> str:
    install()
    package = INSTALLED / "node_modules" / "graphile-worker" / "package.json"
    return str(json.loads(package.read_text())["version"])


class GraphileWorker:
    name = package = "graphile-worker"

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        install()
        self.url = url
        command = ("node", str(PROGRAM), str(INSTALLED), url)
        pipe = asyncio.subprocess.PIPE
        self.program = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        try:
            await self.line()
            async with asyncpg.create_pool(url, min_size=2, max_size=POOL) as self.pool:
                yield
        finally:
            self.program.kill()
            await self.program.wait()

    async def line(self) -> None:
        assert self.program.stdout is not None, "it is a pipe"
        if not await self.program.stdout.readline():
            raise SystemExit("the process of Graphile Worker has ended")

    async def enqueue(self) -> None:
        await self.pool.execute(ADD_ONE)

    async def enqueue_many(self, count: int) -> None:
        await self.pool.execute(ADD_MANY, SPEC, count)

    async def drain(self, count: int) -> None:
        assert self.program.stdin is not None, "it is a pipe"
        self.program.stdin.write(f"{count}\n".encode())
        await self.line()
        await until_empty(self.url, "SELECT 1 FROM graphile_worker._private_jobs LIMIT 1")

    async def serve(self, ran: Callable[[], None]) -> None:
        raise NotImplementedError("its jobs run in a process of Node.js, which tells no times")
