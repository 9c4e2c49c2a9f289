"""`make fuzz MINUTES=10 SEED=1`: send long inputs to a service, and look at how it takes them."""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from fuzz.requests import Request, requests
from interfaces.up import Up, up

SLOW_SECONDS = 1.0
CALLERS = 2
KEY = "fuzz-key-of-at-least-20-characters"
REFUSED = "connection closed"


class Outcome:
    """What came of the requests; shared by the callers."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.slow: list[tuple[float, Request]] = []
        self.faults: list[tuple[str, Request]] = []
        self.slowest = 0.0

    def note(self, request: Request, status: str, seconds: float) -> None:
        self.statuses[status] += 1
        self.slowest = max(self.slowest, seconds)
        if seconds > SLOW_SECONDS:
            self.slow.append((seconds, request))
        if status.startswith("5") and status != "503":
            self.faults.append((status, request))

    @property
    def is_good(self) -> bool:
        return not self.slow and not self.faults

    def lines(self) -> list[str]:
        counts = ", ".join(f"{status}: {n}" for status, n in sorted(self.statuses.items()))
        return [
            f"{self.statuses.total()} requests, slowest {self.slowest:.2f} s; {counts}",
            *(f"  slow: {seconds:.2f} s {request}" for seconds, request in self.slow[:20]),
            *(f"  fault: {status} {request}" for status, request in self.faults[:20]),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    say(f"{options.minutes:g} min of long inputs, SEED={seed}")
    with tempfile.TemporaryDirectory() as folder:
        outcome = fuzz(Path(folder), options.minutes * 60, seed)
    for line in outcome.lines():
        say(line)
    return 0 if outcome.is_good else 1


def fuzz(folder: Path, seconds: float, seed: int) -> Outcome:
    """Raises AssertionError where the service died."""
    outcome = Outcome()
    with up(folder, ONBEAT_API__KEYS=KEY, ONBEAT_ROLES="api,planner,maintenance") as service:
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=call, args=(service, outcome, until, seed + number))
            for number in range(CALLERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert service.process.poll() is None, service.log.read_text()[-2_000:]
        assert service.ask("/healthz")[0] == 200
    return outcome


def call(service: Up, outcome: Outcome, until: float, seed: int) -> None:
    for request in requests(seed, KEY):
        if time.monotonic() > until:
            return
        began = time.monotonic()
        status = answered(service, request)
        outcome.note(request, status, time.monotonic() - began)


def answered(service: Up, request: Request) -> str:
    """The status; a connection that is closed over too long a head has none."""
    connection = HTTPConnection(*service.address, timeout=30)
    try:
        connection.request(request.method, request.path, request.body, request.headers)
        response = connection.getresponse()
        response.read()
    except (HTTPException, ConnectionError, BrokenPipeError, ValueError):
        return REFUSED
    else:
        return str(response.status)
    finally:
        connection.close()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
