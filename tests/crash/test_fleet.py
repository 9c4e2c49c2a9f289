"""Many processes over one server: any of them dies at any moment, and so does the server."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.programs import Program, program
from conditions import eventually_here
from crash.invariants import Invariants
from crash.servers import private_server
from crash.test_kill import LONG_LEASE, PLANT, SEED, count, let_it_run
from proof_counts import counting

CYCLES = int(os.environ.get("CRASH_CYCLES", "8"))
RESTARTS = max(2, CYCLES // 4)
SERVERS = ["postgres", "mysql"]
ROLES = {
    "producer": ("fire", "produce"),
    "keeper": ("planner", "maintenance", "work"),
    "all-1": ("planner", "maintenance", "dispatcher", "worker", "work"),
    "all-2": ("planner", "maintenance", "dispatcher", "worker", "work"),
}

pytestmark = pytest.mark.proof


class Fleet:
    """Processes by what they are for; each life has a name of its own."""

    def __init__(self, place: Any, stack: Any) -> None:
        self.place = place
        self.stack = stack
        self.lives = itertools.count()
        self.running: dict[str, Program] = {}

    def start(self, kind: Any) -> None:
        words = ",".join(ROLES[kind])
        life = program(PLANT, self.place, f"{kind}-{next(self.lives)}", LONG_LEASE, words)
        self.running[kind] = self.stack.enter_context(life)

    def kill(self, kind: Any) -> None:
        self.running.pop(kind).kill()

    def wait_until_ready(self) -> None:
        for kind, one in self.running.items():
            one.wait_to_say("runs" if "work" in ROLES[kind] else "ready")

    def check_alive(self) -> None:
        for kind, one in self.running.items():
            assert one.process.poll() is None, f"{kind} has ended: {one.log.read_text()}"

    def wait_until_quiet(self) -> None:
        """Nothing more is sent, and all that was due ends."""
        self.kill("producer")
        since = datetime.now(UTC)
        eventually_here(
            lambda: Invariants.glance(self.place).is_quiet(since),
            "all that was due has ended",
        )

    def drain(self) -> None:
        for one in self.running.values():
            one.signal(signal.SIGTERM)
        for kind, one in self.running.items():
            assert one.ended() == 0, f"{kind}: {one.log.read_text()}"


@contextlib.contextmanager
def fleet(place: Any) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        made = Fleet(place, stack)
        for kind in ROLES:
            made.start(kind)
        made.wait_until_ready()
        yield made


def checked(place: Any) -> Any:
    books = Invariants(place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()
    return books


def say(place: Any, books: Any, **figures: Any) -> None:
    """What `pytest -rP` shows, so that less of anything is seen."""
    states = Counter(job.state.value for job in books.jobs.values())
    attempts = Counter(one.outcome.value for answer in books.attempts.values() for one in answer)
    refused = count(place, "refused")
    sys.stdout.write(f"{figures} jobs {dict(states)} attempts {dict(attempts)} refused {refused}\n")


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_kills_of_any_process_of_a_fleet_lose_no_job_and_no_occurrence(place: Any) -> None:
    chance = random.Random(SEED)
    kills: Counter[str] = Counter()
    with counting("kills in a fleet") as counts, fleet(place) as made:
        for _ in range(CYCLES):
            made.wait_until_ready()
            let_it_run(chance.uniform(0.05, 0.5))
            victim = chance.choice(list(ROLES))
            made.kill(victim)
            kills[victim] += 1
            counts.add(kills=1)
            made.start(victim)
        made.wait_until_ready()
        made.wait_until_quiet()
        made.check_alive()
        made.drain()
    say(place, checked(place), kills=dict(kills))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with private_server(request.param) as made:
        (tmp_path / "store").write_text(made.url)
        yield made


def test_a_server_that_crashes_under_load_loses_nothing_and_needs_nobody(
    server: Any, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    with counting("crashes of a server") as counts, fleet(tmp_path) as made:
        for _ in range(RESTARTS):
            done = count(tmp_path, "ended")
            eventually_here(lambda: count(tmp_path, "ended") > done + 50, "it works")  # noqa: B023
            let_it_run(chance.uniform(0.0, 0.2))
            server.crash()
            let_it_run(chance.uniform(0.0, 0.5))
            server.start()
            counts.add(restarts=1)
        done = count(tmp_path, "ended")
        eventually_here(lambda: count(tmp_path, "ended") > done + 50, "it works again")
        made.wait_until_quiet()
        made.check_alive()
        made.drain()
    books = checked(tmp_path)
    say(tmp_path, books, restarts=RESTARTS)
    # Who cannot beat while the server is away is not dead.
    assert {job.lost for job in books.jobs.values()} == {0}


APP = """
from onbeat import Onbeat, every

beat = Onbeat()

@beat.task("add")
def add(a: int, b: int) -> int:
    return a + b

@beat.schedule(every("1s"), key="tick")
async def tick() -> None:
    print("ticked", flush=True)
"""


def onbeat(place: Any, *words: Any) -> Any:
    """What the command says; it must succeed."""
    command = [sys.executable, "-m", "onbeat", *words, "--store", (place / "store").read_text()]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


UP = """
import sys
from onbeat.cli.main import main
sys.argv[1:1] = ["up", "app.py", "--store", open("store").read(), "--port", "0"]
main()
"""


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_roles_spread_over_processes_make_one_service(place: Any) -> None:
    (place / "app.py").write_text(APP)
    onbeat(place, "migrate")
    spread = ("api,planner,maintenance", "dispatcher,worker", "dispatcher,worker", "api", "planner")
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(program(UP, place, "--roles", roles, "--planner-horizon", "1s"))
            for roles in spread
        ]
        for worker in running:
            worker.wait_to_say("event=ready")
        workers = running[1:3]
        eventually_here(
            lambda: any(worker.said("ticked") for worker in workers), "the schedule fires"
        )
        onbeat(place, "job", "add", "--task", "add", "--args", "[1, 2]")
        eventually_here(
            lambda: "add" in onbeat(place, "job", "list", "--state", "succeeded"), "the job ends"
        )
        assert onbeat(place, "worker", "list").count("app.tick") == 2
        for worker in running:
            worker.signal(signal.SIGTERM)
        assert [worker.ended() for worker in running] == [0] * len(running)
        assert all(worker.said("event=drained") for worker in running)
        assert "app.tick" not in onbeat(place, "worker", "list")
