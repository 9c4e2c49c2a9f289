"""How soon the job of a killed worker runs elsewhere, over PostgreSQL.

    python benchmarks/recovery.py [--rounds 20] [--url URL]

Three processes of `onbeat up` serve one store. In each round the process that runs the job is
killed with SIGKILL, and another takes its place; the time goes from the kill to the start of the
job's second attempt. Results are appended to benchmarks/results/recovery.json.
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
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.queue_postgres import a_database
from onbeat import Onbeat
from onbeat.model.job import Job, JobState

RESULTS = Path(__file__).parent / "results" / "recovery.json"
PROCESSES = 3
# The service refuses variables that it does not know, such as those of the benchmarks.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ONBEAT_")}
PROGRAM = """
import asyncio
from onbeat import Context, Onbeat
beat = Onbeat({url!r})

@beat.task("hold")
async def hold(context: Context) -> None:
    if context.attempt == 1:
        await asyncio.Event().wait()
"""


async def worker(program: Path, log: Path) -> Process:
    with log.open("ab") as sink:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "onbeat", "up", str(program),
            "--roles", "dispatcher,worker,supervisor", stdout=sink, stderr=sink, env=ENVIRONMENT,
        )  # fmt: skip


async def until_all_are_there(beat: Onbeat, processes: Sequence[Process], log: Path) -> None:
    while len(await beat.store.workers()) < PROCESSES:
        if any(one.returncode is not None for one in processes):
            raise SystemExit(f"a worker has ended:\n{log.read_text()}")  # noqa: ASYNC240  the end
        await asyncio.sleep(0.01)


async def until(beat: Onbeat, id: str, state: JobState) -> Job:
    while True:
        job = await beat.store.job(id)  # type: ignore[arg-type]
        assert job is not None
        if job.state is state:
            return job
        await asyncio.sleep(0.005)


async def measured(url: str, rounds: int, folder: Path) -> list[float]:
    program = folder / "program.py"
    program.write_text(PROGRAM.format(url=url))
    beat = Onbeat(url)
    hold = beat.task("hold")(lambda: None)
    await beat.open()
    processes = [await worker(program, folder / "log") for _ in range(PROCESSES)]
    await until_all_are_there(beat, processes, folder / "log")
    taken = []
    try:
        for _ in range(rounds):
            sent = await hold.asend()
            job = await until(beat, sent.id, JobState.RUNNING)
            pids = {row.id: row.pid for row in await beat.store.workers()}
            (victim,) = [one for one in processes if one.pid == pids[job.worker]]  # type: ignore[index]
            killed_at = time.time()
            victim.send_signal(signal.SIGKILL)
            done = await until(beat, sent.id, JobState.SUCCEEDED)
            assert done.started_at is not None
            taken.append((done.started_at.timestamp() - killed_at) * 1_000)
            await victim.wait()
            processes[processes.index(victim)] = await worker(program, folder / "log")
            await until_all_are_there(beat, processes, folder / "log")
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await beat.close()
    return sorted(taken)


async def in_own_database(url: str, rounds: int) -> list[float]:
    async with a_database(url) as own:
        with tempfile.TemporaryDirectory() as folder:
            return await measured(own, rounds, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default=servers.url_of("PostgreSQL"))
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    taken = uvloop.run(in_own_database(args.url, args.rounds))
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
        "rounds": args.rounds,
        "least ms": round(taken[0]),
        "median ms": round(statistics.median(taken)),
        "most ms": round(taken[-1]),
    }
    print(json.dumps(record, indent=1))
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
