"""A fleet of which one process or all are killed, again and again, with many jobs in flight."""

import contextlib
import itertools
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from conditions import eventually_here
from crash.invariants import Invariants
from crash.servers import private_server
from kills.zygote import Forked, Zygote
from stores.mysql import server as mysql
from stores.postgres import server as postgres

PROGRAM: Final = Path(__file__).parent.parent / "crash" / "app.py"
LEASE: Final = "15"
ROLES: Final = {
    "producer": "fire,produce,crowd",
    "keeper": "planner,maintenance,work,crowd",
    "worker-1": "dispatcher,worker,work,crowd",
    "worker-2": "dispatcher,worker,work,crowd",
}
VICTIMS: Final[Sequence[tuple[Sequence[str], int]]] = (  # with weights
    (["worker-1"], 3),
    (["worker-2"], 3),
    (["keeper"], 2),
    (["producer"], 1),
    (["worker-1", "worker-2"], 4),
    (list(ROLES), 7),
)
WITHIN: Final = 600.0  # seconds, at the lowest priority on a busy machine
IN_FLIGHT: Final = 50  # jobs at least when a worker is killed
EPISODE: Final = 60  # kills of one store; then all is checked, and the next begins empty


class Flights:
    """The attempts that run, by the journals of their handlers, of which each line is read once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.offsets = {"began": 0, "ended": 0}
        self.running: dict[tuple[str, str], str] = {}
        self.ended: set[tuple[str, str]] = set()

    def count(self, alive: set[str]) -> int:
        """In processes of these names."""
        self.ended |= {(id, token) for id, _, token, _ in self.new("ended")}
        self.running |= {(id, token): name for id, _, token, name in self.new("began")}
        self.running = {
            key: name
            for key, name in self.running.items()
            if name in alive and key not in self.ended
        }
        return len(self.running)

    def new(self, journal: str) -> list[list[str]]:
        path = self.place / journal
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self.offsets[journal])
            whole, _, _ = file.read().rpartition(b"\n")
        self.offsets[journal] += len(whole) + (1 if whole else 0)
        return [line.split() for line in whole.decode().splitlines()]


class Fleet:
    def __init__(self, place: Path, zygote: Zygote) -> None:
        self.place = place
        self.zygote = zygote
        self.flights = Flights(place)
        self.lives = itertools.count(1)
        self.running: dict[str, Forked] = {}
        self.names: dict[str, str] = {}

    def start(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.names[kind] = f"{kind}-{next(self.lives)}"
            self.running[kind] = self.zygote.fork(PROGRAM, self.names[kind], LEASE, ROLES[kind])

    def in_flight(self) -> int:
        alive = {name for kind, name in self.names.items() if self.running[kind].is_up}
        return self.flights.count(alive)

    def kill(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.running[kind].signal(signal.SIGKILL)
        for kind in kinds:
            self.running[kind].wait()

    def tend(self) -> None:
        """As an init system does: a start that finds the store locked for too long ends."""
        for kind, process in list(self.running.items()):
            if not process.is_up:
                text = process.log.read_text()
                assert "errors.Unavailable" in text, f"{kind} has ended: {text}"
                self.start([kind])

    def drain(self) -> None:
        for process in self.running.values():
            process.signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait()


def kill_again_and_again(kind: str, folder: Path, kills: int, seed: int) -> Iterator[Counter[str]]:
    """Episodes on stores of this kind until so many processes were killed; the figures of each."""
    done = 0
    with empty_stores(kind) as store:
        for number in itertools.count():
            if done >= kills:
                return
            place = folder / f"{kind}-{number}"
            place.mkdir(parents=True)
            chance = random.Random(f"{seed} {number}")
            with store(place) as url:
                figures = episode(url, place, min(EPISODE, kills - done), chance)
            done += figures["kills"]
            shutil.rmtree(place)
            yield figures


Store = Callable[[Path], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def empty_stores(kind: str) -> Iterator[Store]:
    """What makes an empty store for the processes of a folder, on a server of our own."""
    if kind == "sqlite":
        yield lambda place: contextlib.nullcontext(f"sqlite:///{place}/onbeat.db")
        return
    with private_server(kind) as server:
        if kind == "postgres":
            yield lambda place: postgres.database("onbeat_kills", server.url)
        else:
            yield lambda place: mysql.database(server.url.removesuffix("/onbeat"))


def episode(url: str, place: Path, kills: int, chance: random.Random) -> Counter[str]:
    figures: Counter[str] = Counter()
    with fleet_on(url, place) as fleet:
        while figures["kills"] < kills:
            cycle(fleet, chance, figures)
        check(fleet, figures)
    return figures


@contextlib.contextmanager
def fleet_on(url: str, place: Path) -> Iterator[Fleet]:
    (place / "store").write_text(url)
    with Zygote.running(place) as zygote:
        fleet = Fleet(place, zygote)
        fleet.start(["keeper"])
        ready(fleet, "keeper")  # it has made the tables
        fleet.start([kind for kind in ROLES if kind != "keeper"])
        yield fleet


def ready(fleet: Fleet, kind: str) -> None:
    def said() -> bool:
        fleet.tend()
        log = fleet.running[kind].log
        return log.exists() and "ready" in log.read_text()

    eventually_here(said, f"{kind} is ready", WITHIN)


def cycle(fleet: Fleet, chance: random.Random, figures: Counter[str]) -> None:
    victims = chance.choices([kinds for kinds, _ in VICTIMS], [weight for _, weight in VICTIMS])[0]
    least = chance.randint(IN_FLIGHT, IN_FLIGHT + 10)
    eventually_here(lambda: is_busy(fleet, least), f"{least} jobs are in flight", WITHIN)
    figures["in_flight"] += fleet.in_flight()
    fleet.kill(victims)
    figures["cycles"] += 1
    figures["kills"] += len(victims)
    figures.update(kind.partition("-")[0] for kind in victims)
    fleet.start(victims)


def is_busy(fleet: Fleet, least: int) -> bool:
    fleet.tend()
    return fleet.in_flight() >= least


def check(fleet: Fleet, figures: Counter[str]) -> None:
    """Nothing more is sent, all that was due ends, and all agrees with the journals."""
    fleet.kill(["producer"])
    del fleet.running["producer"], fleet.names["producer"]
    since = datetime.now(UTC)
    eventually_here(lambda: is_quiet(fleet, since), "all that was due has ended", WITHIN)
    fleet.drain()
    books = Invariants(fleet.place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()
    figures["jobs"] += len(books.jobs)
    figures["lost_attempts"] += sum(job.lost for job in books.jobs.values())


def is_quiet(fleet: Fleet, since: datetime) -> bool:
    fleet.tend()
    return Invariants.glance(fleet.place).is_quiet(since)
