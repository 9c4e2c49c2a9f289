"""Which of the processes of pytest-xdist runs which test, and when.

What starts fleets, servers and whole copies of the suite begins first, and two of these run at a
time: more of them would be late for each other, and one after the other they would outlast all else.
"""

from typing import Final

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

HEAVY: Final = (
    "demo",
    "fleet",
    "tests/chaos/",
    "tests/crash/",
    "tests/fleet/",
    "tests/kills/",
    "tests/planted/",
    "tests/power/",
    "tests/upgrade/",
)
"""Groups and folders of tests that take long while they mostly wait. In a folder each is a unit."""

TAKERS: Final = ("gw0", "gw1")
"""The processes that run these, until none is left."""


def unit_of(nodeid: str) -> str:
    """What is handed out as one: a group by `xdist_group`, a heavy test, a class or a module.

    One unit for each test would make fixtures of modules anew between them, and costs the process
    that hands them out as much as some tests take: it looks at every unit after each event.
    """
    if nodeid.rfind("@") > nodeid.rfind("]"):
        return nodeid.rpartition("@")[2]
    if is_heavy(nodeid):
        return nodeid
    return nodeid.partition("[")[0].rpartition("::")[0]


def is_heavy(unit: str) -> bool:
    return unit.startswith(HEAVY)


class HeavyFirst(LoadGroupScheduling):
    """As `--dist loadgroup`, with these units in this order."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        takes_heavy = node.gateway.id in TAKERS
        wanted = (unit for unit in self.workqueue if is_heavy(unit) == takes_heavy)
        unit = next(wanted, None)
        if unit is not None:
            self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
