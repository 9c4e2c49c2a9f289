"""A server that is ended under a fleet at work, by a crash or by SIGKILL, and started again."""

import random
from collections import Counter
from pathlib import Path
from typing import Final

from conditions import eventually_here
from crash.invariants import lines
from crash.servers import private_server
from crash.test_kill import let_it_run
from kills.cycles import WITHIN, check, fleet_on

STORES: Final = ("postgres", "mysql")
ENDED: Final = 50  # jobs between two restarts
AWAY_MAX: Final = 0.5  # seconds


def restart_again_and_again(kind: str, place: Path, restarts: int, seed: int) -> Counter[str]:
    """Returns figures; the processes of the fleet live on, and need nobody."""
    figures: Counter[str] = Counter()
    chance = random.Random(f"{seed} {kind}")
    with private_server(kind) as server, fleet_on(server.url, place) as fleet:
        lives = dict(fleet.names)
        for _ in range(restarts):
            wait_for_work(place)
            chance.choice((server.crash, server.kill))()
            let_it_run(chance.uniform(0.0, AWAY_MAX))
            server.start()
            figures["restarts"] += 1
        wait_for_work(place)
        assert fleet.names == lives, "no process has ended for it"
        check(fleet, figures)
    return figures


def wait_for_work(place: Path) -> None:
    done = len(lines(place / "ended"))
    eventually_here(lambda: len(lines(place / "ended")) >= done + ENDED, "jobs run", WITHIN)
