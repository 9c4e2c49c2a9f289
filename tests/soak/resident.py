"""A service that nobody kills: it works for as long as a soak lasts, and must not grow by it."""

import contextlib
import os
import threading
from collections.abc import Generator, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import asyncmy.errors

from conditions import eventually_here
from interfaces.up import Up, up
from model_checks.places import place_of
from soak.growth import Vitals, growth
from stores.mysql import server as mysql
from stores.postgres import server as postgres

PROGRAM: Final = Path(__file__).with_name("program.py")
TESTS: Final = PROGRAM.parents[1]
ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})
JOBS: Final = 20  # of each round
WARM_ROUNDS: Final = 4  # caches, pools and lazy imports fill in these
CUT_EVERY: Final = 5  # rounds between two ends of all sessions
PAUSE_SECONDS: Final = 3.0  # between rounds beside chaos, which has the machine
PAGES: Final = ("/", "/jobs", "/queues", "/schedules", "/failures", "/workers")


class Resident:
    """Does the same round of work again and again, and looks at the process after each."""

    def __init__(self, service: Up, url: str) -> None:
        self.service = service
        self.url = url
        self.rounds = 0
        self.looks: list[Vitals] = []

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            self.work_once()

    def work_once(self) -> None:
        self.rounds += 1
        ids = self.send()
        self.watch()
        if self.rounds % CUT_EVERY == 0:
            end_sessions(self.url)
        eventually_here(lambda: self.have_ended(ids), "the jobs of a round have ended")
        look = self.look()
        if self.rounds > WARM_ROUNDS:
            self.looks.append(look)

    def send(self) -> list[str]:
        """Jobs that succeed, fail, wait for others and are cancelled; and an edit of a schedule."""
        jobs: list[dict[str, Any]] = []
        for number in range(JOBS // 4):
            jobs += [
                {"task": "wait", "args": [0.01]},
                {"task": "think", "args": [1_000], "unique": f"u{number}"},
                {"task": "fail", "args": [number]},
                {"task": "wait", "args": [0.01], "delay": "1h"},
            ]
        made = self.ask("/api/jobs", {"jobs": jobs})
        ids = [str(id) for id in made["ids"]]
        for id in ids[3::4]:
            self.ask(f"/api/jobs/{id}/cancel", {})
        body = {"name": "edited", "every": f"{60 + self.rounds % 2}s", "target": {"task": "think"}}
        self.ask("/api/schedules-by-key/edited", body, "PUT")
        return ids

    def watch(self) -> None:
        """Readers that look at pages, and one that leaves the live stream in its middle."""
        for path in PAGES:
            self.ask(path)
        connection = HTTPConnection(*self.service.address, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/api/stream")
            connection.getresponse().readline()

    def have_ended(self, ids: list[str]) -> bool:
        return all(self.ask(f"/api/jobs/{id}")["state"] in ENDED for id in ids)

    def look(self) -> Vitals:
        id = self.ask("/api/jobs", {"task": "look"})["id"]
        eventually_here(lambda: self.have_ended([id]), "it has looked at itself")
        return Vitals(*self.ask(f"/api/jobs/{id}")["result"])

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """An answer; one that its store's end has refused is asked for again."""
        answers: list[tuple[int, Any]] = []

        def is_answered() -> bool:
            answers.append(self.service.ask(path, body, method=method))
            return answers[-1][0] != 503

        eventually_here(is_answered, f"{path} is answered")
        status, answer = answers[-1]
        assert status < 300, (path, status, answer)
        return answer

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Goes on with its rounds while the block lasts; raises what they have raised."""
        over, errors = threading.Event(), []

        def go_on() -> None:
            try:
                while not over.is_set():
                    self.work_once()
                    over.wait(PAUSE_SECONDS)
            except BaseException as error:  # noqa: BLE001  raised below, in the thread that asks
                errors.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if errors:
            raise errors[0]

    def verdict(self) -> str:
        """What it held first and last. Raises `AssertionError` where it has grown."""
        grown = growth(self.looks)
        assert not grown, f"after {self.rounds} rounds: {'; '.join(grown)}"
        if not self.looks:
            return f"resident rounds={self.rounds}"
        first, last = self.looks[0].line(), self.looks[-1].line()
        return f"resident rounds={self.rounds}\n  first {first}\n  last  {last}"


def end_sessions(url: str) -> None:
    """All sessions of a server's database end at once, and its users have to connect again."""
    match url.partition(":")[0]:
        case "postgresql":
            postgres.execute(
                url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
        case "mysql":
            others = mysql.execute(
                url,
                "SELECT id FROM information_schema.processlist"
                " WHERE db = database() AND id <> connection_id()",
            )
            for (id,) in others:
                with contextlib.suppress(asyncmy.errors.OperationalError):  # it has ended by itself
                    mysql.execute(url, f"KILL {id}")
        case _:
            return


@contextlib.contextmanager
def residing(kind: str, folder: Path, **environment: str) -> Generator[Resident]:
    """One on a new store of this kind, of `sqlite`, `postgres` and `mysql`."""
    with place_of(kind, folder) as place:
        url = f"sqlite:///{place}" if kind == "sqlite" else place
        paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        variables: dict[str, Any] = {"ONBEAT_STORE": url, "PYTHONPATH": paths, **environment}
        with up(folder, str(PROGRAM), **variables) as service:
            yield Resident(service, url)
