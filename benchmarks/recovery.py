"""Measure how soon the jobs of a killed worker run elsewhere, on each store.

    python benchmarks/recovery.py [--rounds 30] [--stores sqlite,postgres,mysql] [--apart]

Three processes of `onbeat up` serve one store, beside `--load` short jobs a second. In each round
they hold ten jobs, one process is killed with SIGKILL, and another takes its place; the time goes
from the kill to the start of the second attempt of each job that it held. With `--apart` each
process has a host name of its own, so no kernel reports its end. Results are appended to
benchmarks/results/recovery.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.queue_postgres import a_database
from onbeat import Onbeat
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState

RESULTS = Path(__file__).parent / "results" / "recovery.json"
PYTHON = Path(sys.executable).absolute()
PROCESSES = 3
HELD = 10
# The service refuses variables that it does not know, such as those of the benchmarks.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ONBEAT_")}
PROGRAM = """
import asyncio, os, socket
from pathlib import Path
from onbeat import Context, Onbeat
if {apart!r}:
    socket.gethostname = lambda: f"machine-{{os.getpid()}}"
beat = Onbeat({url!r})

@beat.task("hold")
async def hold(context: Context, go: str) -> None:
    while context.token == 1 and not Path(go).exists():
        await asyncio.sleep(0.02)

@beat.task("short")
async def short() -> None:
    pass
"""


@contextlib.asynccontextmanager
async def a_store(kind: str, folder: Path) -> AsyncGenerator[str, None]:
    match kind:
        case "sqlite":
            yield f"sqlite:///{folder}/onbeat.db"
        case "postgres":
            async with a_database(servers.url_of("PostgreSQL"), "onbeat_recovery") as url:
                yield url
        case _:
            async with servers.a_mysql_database() as url:
                yield url


async def worker(program: Path, log: Path) -> Process:
    with log.open("ab") as sink:
        return await asyncio.create_subprocess_exec(
            PYTHON, "-m", "onbeat", "up", str(program),
            "--roles", "dispatcher,worker,maintenance", "--concurrency", "8",
            stdout=sink, stderr=sink, env=ENVIRONMENT, cwd=program.parent,
        )  # fmt: skip


async def hold(go: str) -> None: ...


async def short() -> None: ...


class Fleet:
    """The processes on one store, and that store."""

    def __init__(self, url: str, folder: Path, *, apart: bool) -> None:
        self.folder = folder
        self.program, self.log = folder / "program.py", folder / "log"
        self.program.write_text(PROGRAM.format(url=url, apart=apart))
        self.beat = Onbeat(url)
        self.hold = self.beat.task("hold")(hold)
        self.short = self.beat.task("short")(short)
        self.processes: list[Process] = []

    async def start(self) -> None:
        while len(self.processes) < PROCESSES:
            self.processes.append(await worker(self.program, self.log))
        while not {process.pid for process in self.processes} <= set(
            (await self.workers()).values()
        ):
            if any(process.returncode is not None for process in self.processes):
                raise SystemExit(f"a worker has ended:\n{self.log.read_text()}")
            await asyncio.sleep(0.01)

    async def workers(self) -> dict[str, int]:
        return {row.id: row.pid for row in await self.beat.backend.store.workers()}

    async def load(self, each_second: float) -> None:
        while each_second:
            with contextlib.suppress(Unavailable):
                await self.short.asend()
            await asyncio.sleep(1 / each_second)

    async def round(self, number: int) -> list[float]:
        go = self.folder / f"go-{number}"
        calls = [self.hold.call(str(go)) for _ in range(HELD)]
        ids = [sent.id for sent in await self.beat.asend(calls)]
        held = await self.until(ids, lambda job: job.state is JobState.RUNNING)
        pids = await self.workers()
        victim = next(
            process for process in self.processes if process.pid == pids[str(held[0].worker)]
        )
        lost = [job.id for job in held if pids[str(job.worker)] == victim.pid]
        killed_at = time.time()
        victim.send_signal(signal.SIGKILL)
        again = await self.until(lost, lambda job: job.token > 1 and job.started_at is not None)
        go.touch()
        await self.until(ids, lambda job: job.is_final)
        await victim.wait()
        self.processes.remove(victim)
        await self.start()
        return [(job.started_at.timestamp() - killed_at) for job in again if job.started_at]

    async def until(self, ids: Sequence[str], holds: Callable[[Job], bool]) -> list[Job]:
        while True:
            jobs = [
                job
                for id in ids
                if (job := await self.beat.backend.store.job(JobId(id))) is not None
            ]
            if len(jobs) == len(ids) and all(map(holds, jobs)):
                return jobs
            await asyncio.sleep(0.005)


async def measured(kind: str, rounds: int, load: float, *, apart: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as place:
        async with a_store(kind, Path(place)) as url:
            fleet = Fleet(url, Path(place), apart=apart)
            await fleet.beat.backend.open()
            loading = asyncio.create_task(fleet.load(load))
            taken: list[float] = []
            try:
                await fleet.start()
                for number in range(rounds):
                    taken += await fleet.round(number)
            finally:
                loading.cancel()
                for process in fleet.processes:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
                await fleet.beat.aclose()
            return sorted(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--stores", default="sqlite,postgres,mysql")
    parser.add_argument("--load", type=float, default=50)
    parser.add_argument("--apart", action="store_true")
    args = parser.parse_args()
    for kind in args.stores.split(","):
        taken = uvloop.run(measured(kind, args.rounds, args.load, apart=args.apart))
        record = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "store": kind,
            "apart": args.apart,
            "load": os.getloadavg()[0],
            "rounds": args.rounds,
            "jobs a second": args.load,
            "jobs": len(taken),
            "least ms": round(taken[0] * 1_000),
            "median ms": round(statistics.median(taken) * 1_000),
            "p99 ms": round(taken[int(len(taken) * 0.99)] * 1_000),
            "most ms": round(taken[-1] * 1_000),
        }
        print(json.dumps(record, indent=1), flush=True)
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
