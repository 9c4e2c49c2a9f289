"""Jobs that wait for events, in a service that is killed: each gets its own event, once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from interfaces.up import Up, up

pytestmark = pytest.mark.proof

PROGRAM = Path(__file__).parent / "event_waits.py"
JOBS = 100
KILLS = 3


def serve(place: Path) -> Any:
    store = (place / "store").read_text()
    return up(place, str(PROGRAM), ONBEAT_STORE=store)


def jobs_in(service: Up, reason: str, state: str) -> list[dict[str, Any]]:
    status, answer = service.ask(f"/api/jobs?task=invoice&state={state}&limit={JOBS}")
    assert status == 200, answer
    return [job for job in answer["jobs"] if (job["reason"] or "").startswith(reason)]


def kill(service: Up) -> None:
    service.process.kill()
    service.process.wait()


def send(service: Up) -> None:
    jobs = [{"task": "invoice", "args": [number]} for number in range(JOBS)]
    status, answer = service.ask("/api/jobs", {"jobs": jobs})
    assert status == 201, answer


def publish(service: Up, numbers: range) -> None:
    for number in numbers:
        body = {"type": "invoice.reviewed", "subject": str(number), "data": {"number": number}}
        status, answer = service.ask("/api/events", body | {"id": f"review {number}"})
        assert (status, answer["created"]) == (202, True)


def some(service: Up, read: Callable[[Up], list[Any]], least: int, what: str) -> None:
    eventually_here(lambda: len(read(service)) >= least, what, 60)


def waiting(service: Up) -> list[Any]:
    return jobs_in(service, "waits for event invoice.reviewed by ", "waiting")


def succeeded(service: Up) -> list[Any]:
    return jobs_in(service, "", "succeeded")


def test_each_job_gets_its_event_whenever_the_service_was_killed(place: Path) -> None:
    with serve(place) as service:
        send(service)
        some(service, waiting, 1, "some jobs wait")
        kill(service)
    with serve(place) as service:
        some(service, waiting, JOBS, "all jobs wait")
        publish(service, range(JOBS // 2))
        kill(service)
    with serve(place) as service:
        publish(service, range(JOBS // 2, JOBS))
        some(service, succeeded, JOBS // 4, "some jobs have their event")
        kill(service)
    with serve(place) as service:
        some(service, succeeded, JOBS, "all jobs have their event")
        for job in succeeded(service):
            _, shown = service.ask(f"/api/jobs/{job['id']}")
            assert shown["result"] == {"number": shown["target"]["args"][0]}
            assert shown["attempt"] <= 1 + KILLS, "only kills cost attempts"
