"""A pytest plugin: a virtual clock for the jobs and schedules of the program under test.

It is loaded in every run of pytest where Onbeat is installed, so it imports nothing of Onbeat
before a test asks for a fixture.
"""

import functools
import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from onbeat.app.client import Onbeat
    from onbeat.app.virtual_clock import VirtualRun

AT: Final = "2026-01-01T00:00:00Z"
OPTION: Final = "onbeat_app"
TRIAL: Final = "onbeat"
HOW: Final = (
    "the fixture `onbeat` does not know the program: write `onbeat_app = MODULE:NAME` into the "
    "configuration of pytest, or a fixture `onbeat_app` that returns the Onbeat"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(OPTION, "The program of the fixture `onbeat`: FILE.py or MODULE:NAME.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"onbeat(at='{AT}', store='memory://'): when the virtual clock of the test starts, and the "
        "store of its jobs",
    )


@pytest.fixture(scope="session")
def onbeat_app(pytestconfig: pytest.Config) -> "Onbeat":
    """The program under test: the one that `onbeat_app` names in the configuration of pytest."""
    from onbeat.cli.app_loader import load_app  # noqa: PLC0415  loaded on demand

    place = str(pytestconfig.getini(OPTION))
    if not place:
        pytest.fail(HOW, pytrace=False)
    return load_app(place)


@pytest.fixture
def onbeat(
    onbeat_app: "Onbeat", request: pytest.FixtureRequest
) -> "Generator[VirtualRun, None, None]":
    """A trial of the program: `advance`, `drain`, `assert_ran`, `assert_enqueued`.

    `onbeat_app` runs on a store of its own and on a virtual clock until the test ends.
    """
    marker = cast("Any", request).node.get_closest_marker(TRIAL)
    given: dict[str, Any] = {"at": AT} if marker is None else {"at": AT, **marker.kwargs}
    with onbeat_app.testing(**given) as trial:
        yield trial


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A trial ends in the event loop of the coroutine that used it."""
    function = getattr(item, "obj", None)
    trial = getattr(item, "funcargs", {}).get(TRIAL)
    if trial is None or not inspect.iscoroutinefunction(function):
        return (yield)
    item.obj = closing(function, trial)  # type: ignore[attr-defined]
    try:
        return (yield)
    finally:
        item.obj = function  # type: ignore[attr-defined]


def closing(function: Callable[..., Any], trial: "VirtualRun") -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> None:
        async with trial:
            await function(*args, **kwargs)

    return call
