"""Many processes over one server: any of them dies at any moment, and so does the server."""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime

import pytest

from app.programs import program
from crash.ledger import Books
from crash.servers import private_server
from crash.test_kill import LONG_LEASE, PLANT, SEED, count, let_it_run
from waiting import eventually_here

CYCLES = int(os.environ.get("ONBEAT_CRASH_CYCLES", "8"))
RESTARTS = max(2, CYCLES // 4)
SERVERS = ["postgres", "mysql"]
ROLES = {
    "producer": ("fire", "produce"),
    "keeper": ("planner", "supervisor", "work"),
    "all-1": ("planner", "supervisor", "dispatcher", "worker", "work"),
    "all-2": ("planner", "supervisor", "dispatcher", "worker", "work"),
}

pytestmark = pytest.mark.xdist_group("fleet")


class Fleet:
    """Processes by what they are for; each life has a name of its own."""

    def __init__(self, place, stack):
        self.place = place
        self.stack = stack
        self.lives = itertools.count()
        self.running = {}

    def start(self, kind):
        words = ",".join(ROLES[kind])
        life = program(PLANT, self.place, f"{kind}-{next(self.lives)}", LONG_LEASE, words)
        self.running[kind] = self.stack.enter_context(life)

    def kill(self, kind):
        self.running.pop(kind).kill()

    def wait_until_ready(self):
        for kind, one in self.running.items():
            one.wait_to_say("runs" if "work" in ROLES[kind] else "ready")

    def check_alive(self):
        for kind, one in self.running.items():
            assert one.process.poll() is None, f"{kind} has ended: {one.log.read_text()}"

    def wait_until_quiet(self):
        """Nothing more is sent, and all that was due ends."""
        self.kill("producer")
        since = datetime.now(UTC)
        eventually_here(
            lambda: Books.glance(self.place).is_quiet(since), "all that was due has ended", 40
        )

    def drain(self):
        for one in self.running.values():
            one.signal(signal.SIGTERM)
        for kind, one in self.running.items():
            assert one.ended() == 0, f"{kind}: {one.log.read_text()}"


@contextlib.contextmanager
def fleet(place):
    with contextlib.ExitStack() as stack:
        made = Fleet(place, stack)
        for kind in ROLES:
            made.start(kind)
        made.wait_until_ready()
        yield made


def checked(place):
    books = Books(place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()
    return books


def say(place, books, **figures):
    """What `pytest -rP` shows, so that less of anything is seen."""
    states = Counter(job.state.value for job in books.jobs.values())
    attempts = Counter(one.outcome.value for told in books.attempts.values() for one in told)
    refused = count(place, "refused")
    sys.stdout.write(f"{figures} jobs {dict(states)} attempts {dict(attempts)} refused {refused}\n")


@pytest.mark.parametrize("place", SERVERS, indirect=True)
def test_kills_of_any_process_of_a_fleet_lose_no_job_and_no_occurrence(place):
    chance = random.Random(SEED)
    kills = Counter()
    with fleet(place) as made:
        for _ in range(CYCLES):
            made.wait_until_ready()
            let_it_run(chance.uniform(0.05, 0.5))
            victim = chance.choice(list(ROLES))
            made.kill(victim)
            kills[victim] += 1
            made.start(victim)
        made.wait_until_ready()
        made.wait_until_quiet()
        made.check_alive()
        made.drain()
    say(place, checked(place), kills=dict(kills))


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    with private_server(request.param) as made:
        (tmp_path / "store").write_text(made.url)
        yield made


def test_a_server_that_crashes_under_load_loses_nothing_and_needs_nobody(server, tmp_path):
    chance = random.Random(SEED)
    with fleet(tmp_path) as made:
        for _ in range(RESTARTS):
            done = count(tmp_path, "ended")
            eventually_here(lambda: count(tmp_path, "ended") > done + 50, "it works", 20)  # noqa: B023
            let_it_run(chance.uniform(0.0, 0.2))
            server.crash()
            let_it_run(chance.uniform(0.0, 0.5))
            server.start()
        done = count(tmp_path, "ended")
        eventually_here(lambda: count(tmp_path, "ended") > done + 50, "it works again", 20)
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


def onbeat(place, *words):
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
def test_roles_spread_over_processes_make_one_service(place):
    (place / "app.py").write_text(APP)
    onbeat(place, "migrate")
    spread = ("api,planner,supervisor", "dispatcher,worker", "dispatcher,worker", "api", "planner")
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(program(UP, place, "--roles", roles, "--planner-horizon", "1s"))
            for roles in spread
        ]
        for one in running:
            one.wait_to_say("event=ready")
        workers = running[1:3]
        eventually_here(lambda: any(one.said("ticked") for one in workers), "the schedule fires")
        onbeat(place, "job", "add", "--task", "add", "--args", "[1, 2]")
        eventually_here(
            lambda: "add" in onbeat(place, "job", "list", "--state", "succeeded"), "the job ends"
        )
        assert onbeat(place, "worker", "list").count("app.tick") == 2
        for one in running:
            one.signal(signal.SIGTERM)
        assert [one.ended() for one in running] == [0] * len(running)
        assert all(one.said("event=drained") for one in running)
        assert "app.tick" not in onbeat(place, "worker", "list")
