"""The units in which tests are handed out, and who takes them."""

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from distribution import HEAVY, HeavyFirst, is_heavy, unit_of
from docs.pages import ROOT

FOLDERS = [name for name in HEAVY if name.startswith("tests/")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_heavy_test_is_a_unit(folder: str) -> None:
    nodeids = [f"{folder}test_a.py::test_b[{n}]" for n in range(3)]
    assert [unit_of(id) for id in nodeids] == nodeids
    assert all(map(is_heavy, nodeids))


def test_what_is_heavy_is_there() -> None:
    assert all((ROOT / path).exists() for path in FOLDERS)
    assert is_heavy(unit_of("tests/docs/test_demo.py::test_a@demo"))


def test_a_group_is_a_unit() -> None:
    assert unit_of("tests/dashboard/test_a.py::test_b[x]@browser") == "browser"
    assert unit_of("tests/dashboard/test_a.py::test_b[x@y]") != "y]"


@pytest.mark.parametrize("place", ["tests/rules/test_a.py", "tests/rules/test_a.py::TestB"])
def test_a_class_or_module_is_a_unit(place: str) -> None:
    assert {unit_of(f"{place}::test_c[{n}::]") for n in range(9)} == {place}


class Node:
    """A process of pytest-xdist, as far as the scheduler looks at it."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def scheduler(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    made = HeavyFirst(pytestconfig)
    units = ["tests/rules/a.py 0", "tests/crash/b.py::b", "tests/rules/c.py 0"]
    made.workqueue = OrderedDict((unit, {unit: False}) for unit in units)
    return made


def given(scheduler: Any, name: str) -> list[str]:
    """The units that a process is given, one after the other, if it is alone."""
    node: Any = Node(name)
    scheduler.registered_collections[node] = nodeids = list(scheduler.workqueue)
    while scheduler.workqueue:
        scheduler._assign_work_unit(node)
    return [nodeids[index] for index in node.sent]


@pytest.mark.parametrize("name", ["gw0", "gw1"])
def test_two_processes_take_what_is_heavy_first(scheduler: Any, name: str) -> None:
    assert given(scheduler, name) == [
        "tests/crash/b.py::b",
        "tests/rules/a.py 0",
        "tests/rules/c.py 0",
    ]


def test_the_others_take_it_last(scheduler: Any) -> None:
    assert given(scheduler, "gw2")[-1] == "tests/crash/b.py::b"
