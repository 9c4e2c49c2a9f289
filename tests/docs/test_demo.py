"""The demo of `make run`, as it is: its dashboard, and each thing that it promises to look at."""

import json
import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from docs.pages import ROOT
from docs.services import running

pytestmark = [pytest.mark.usefixtures("only_demo"), pytest.mark.xdist_group("demo")]

RUN = ROOT / "examples" / "demo" / "run.py"
ADDRESS = re.compile(r"Onbeat is running: (http://127\.0\.0\.1:\d+)/")
WITHIN = 90
ZONES = {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"}


class Demo:
    """A running demo, with what it printed and what its service answers."""

    def __init__(self, log: Path) -> None:
        self.log = log
        found = eventually_here(lambda: ADDRESS.search(log.read_text()), "it says where", WITHIN)
        self.base = found[1]
        eventually_here(lambda: self.ask("/api/dead")["letters"], "everything is put", WITHIN)

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.base + path, timeout=30) as answer:
            return answer.read().decode()

    def ask(self, path: str) -> Any:
        return json.loads(self.page(path))

    def jobs(self, **filters: object) -> list[dict[str, Any]]:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        return self.ask(f"/api/jobs?limit=1000&{query}")["jobs"]

    def schedules(self) -> dict[str, dict[str, Any]]:
        known = self.ask("/api/schedules?limit=100")["schedules"]
        return {schedule["key"]: schedule for schedule in known}

    def counts(self) -> Counter[str]:
        """Of what is put by hand, and may be there once only."""
        put = [("reports", job["unique"]) for job in self.jobs(queue="reports") if job["unique"]]
        put += [("legacy", job["unique"]) for job in self.jobs(queue="legacy")]
        put += [("schedules", key) for key in self.schedules()]
        put += [("dead", letter["reason"]) for letter in self.ask("/api/dead")["letters"]]
        put += [("events", event["id"]) for event in self.ask("/api/events")["events"]]
        put += [("backfill", job["occurrence"]) for job in self.of_the_day_before()]
        return Counter(kind for kind, _ in put)

    def of_the_day_before(self) -> list[dict[str, Any]]:
        id = self.schedules()["demo-ledger"]["id"]
        jobs = self.jobs(schedule_id=id, state="succeeded")
        return [job for job in jobs if job["occurrence"] < job["created_at"]]


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    with running([sys.executable, str(RUN)], folder):
        yield Demo(folder / "run.py.log")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def is_there(demo: Demo, queue: str, reason: str) -> Callable[[], bool]:
    def look() -> bool:
        return any(reason in str(job) for job in demo.jobs(queue=queue))

    return look


def test_everything_that_is_promised_can_be_seen(folder: Path) -> None:
    with demo(folder) as running_demo:
        check_words(running_demo)
        check_schedules(running_demo)
        check_what_is_put(running_demo)
        check_what_happens(running_demo)
        before = running_demo.counts()
    assert before == {
        "reports": 400, "legacy": 1, "schedules": 14, "dead": 1, "events": 1, "backfill": 24
    }  # fmt: skip
    (folder / "run.py.log").unlink()
    with demo(folder) as running_demo:
        assert running_demo.counts() == before


def check_words(demo: Demo) -> None:
    """The address comes first, and each address that it offers answers."""
    text = demo.log.read_text()
    assert text.strip().startswith(f"Onbeat is running: {demo.base}/")
    assert re.findall(r"^  (\d)\. ", text, re.MULTILINE) == ["1", "2", "3"]
    offered = re.findall(rf"{re.escape(demo.base)}(/\S*)", text)
    assert len(offered) == 7
    assert "Onbeat" in demo.page("/")
    assert all(demo.page(path) for path in offered)


def check_schedules(demo: Demo) -> None:
    known = demo.schedules()
    assert len(known) == 14
    assert {schedule.get("timezone", "UTC") for schedule in known.values()} == ZONES
    assert known["demo-pulse"]["rrule"] == "FREQ=SECONDLY;INTERVAL=2"
    assert known["demo-stock"]["overlap"] == "skip"
    assert known["demo-export"]["status"] == "paused"
    assert "auditors" in known["demo-export"]["labels"]["note"]
    preview = demo.ask(f"/api/schedules/{known['demo-month']['id']}/preview")
    assert any("does not exist in Europe/Berlin" in note for note in preview["notes"])


def check_what_is_put(demo: Demo) -> None:
    queues = {queue["name"]: queue for queue in demo.ask("/api/queues?limit=100")["queues"]}
    assert queues["reports"]["limits"] == {"concurrency": 2}
    assert queues["imports"]["limits"]["fair"] is True
    tenants = {job["group"] for job in demo.jobs(queue="imports")}
    assert tenants == {"acme", "globex", "initech", "umbrella"}
    (unknown,) = demo.jobs(queue="legacy")
    assert demo.ask(f"/api/jobs/{unknown['id']}/why")["code"] == "unknown_task"
    event = demo.ask("/api/events/weather-1")
    assert (event["jobs"], event["verdicts"]) == ([], [])


def check_what_happens(demo: Demo) -> None:
    for queue, words in [
        ("release", "the key of the production cluster has expired"),
        ("release", "production is as it was"),
        ("mail", "Error: "),
        ("shop", "503 Service Unavailable"),
        ("shop", "seems to be down"),
        ("stock", "overlap: an earlier job of the schedule had not ended"),
    ]:
        eventually_here(is_there(demo, queue, words), f"{queue}: {words}", WITHIN)
    failed = next(job for job in demo.jobs(queue="release", state="failed"))
    flow = demo.ask(f"/api/flows/{failed['flow']}")
    assert len(flow["jobs"]) == 7
    eventually_here(lambda: "/shop      is back" in demo.log.read_text(), "it is back", WITHIN)
    eventually_here(partial(demo.jobs, queue="shop", state="succeeded"), "its calls go on", WITHIN)
    assert not demo.jobs(queue="shop", state="failed")
