"""Failures by fault: the list, and one fault with its hours and its newest jobs."""

from collections.abc import Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, NamedTuple

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.formats import duration, number
from onbeat.dashboard.forms import Texts, check_fields
from onbeat.dashboard.links import link
from onbeat.dashboard.pages.jobs import in_words, title_of
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.fault import Share
from onbeat.model.limits import (
    FAULT_JOBS_MAX,
    FAULT_LISTED_JOBS_MAX,
    FAULT_NOTE_CHARS_MAX,
    REPLAY_MAX,
)
from onbeat.operations.tables.failures import FAILURE_LIST, FAILURE_NOTE, FAILURE_SHOW
from onbeat.wire.failures import FailureInfo

ORDERS: Final = {"last": "latest first", "count": "most attempts", "first": "newest first"}
STRIP_HEIGHT: Final = 20
STEP: Final = 4
BAR_MIN: Final = 2


class HourBar(NamedTuple):
    """One hour of a strip, in its units from the top left; `at` is when the hour began."""

    x: int
    y: int
    height: int
    attempts: int
    at: datetime


class Strip(NamedTuple):
    """Attempts by hour as bars; hours without any have none. `words` tell the same."""

    bars: tuple[HourBar, ...]
    width: int
    words: str


async def failures_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(FAILURE_LIST, limit=50)
    values = {
        "rows": [(one, strip(one.hours, viewer.now)) for one in answer.failures],
        "total": answer.total,
        "cursor": answer.cursor,
        "filters": viewer.filters,
        "orders": ORDERS,
        "in_words": in_words,
        "most": FAULT_LISTED_JOBS_MAX,
        "replay_max": REPLAY_MAX,
        "is_silenced": is_silenced_at(viewer.now),
    }
    return PageAnswer("failures.html", "Failures", "failures", values)


async def failure_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    one = await viewer.ask(FAILURE_SHOW, fault=viewer.request.path_params["fault"])
    values = {
        "one": one,
        "strip": strip(one.hours, viewer.now),
        "jobs": () if one.jobs is UNSET else one.jobs,
        "title_of": title_of,
        "in_words": in_words,
        "most": FAULT_JOBS_MAX,
        "replay_max": REPLAY_MAX,
        "is_silenced": is_silenced_at(viewer.now),
        "deploy": deploy_of(one),
        "spread": spread_of(one),
        "note_chars": FAULT_NOTE_CHARS_MAX,
    }
    return PageAnswer("failure.html", f"{one.title} in {one.task}", "failures", values)


async def note_failure(viewer: Viewer, texts: Texts) -> Response:
    """The text replaces the operator's note; an empty one deletes it."""
    viewer.check_may(FAILURE_NOTE)
    check_fields(texts, "text")
    fault = viewer.request.path_params["fault"]
    await viewer.tell(FAILURE_NOTE, {"text": texts.get("text", "")}, fault=fault)
    return RedirectResponse(link("failures", fault), HTTPStatus.SEE_OTHER)


def deploy_of(one: FailureInfo) -> str | None:
    """How soon after the start of its process it was first seen; None where that is not known."""
    process = one.process
    if process is None:
        return None
    release = f" with release {process.release}" if process.release else ""
    age = max(one.first_at - process.started_at, timedelta(0))
    return f"{duration(age)} after {process.host}:{process.pid} started{release}"


class SpreadLine(NamedTuple):
    """How the newest `most` jobs of a fault spread over one kind of name."""

    name: str
    shares: tuple[Share, ...]
    most: int


def spread_of(one: FailureInfo) -> tuple[SpreadLine, ...]:
    found = one.spread
    if found is UNSET:
        return ()
    kinds = (
        SpreadLine("Queue", found.by_queue, found.jobs),
        SpreadLine("Worker", found.by_worker, found.attempted),
        SpreadLine("Label", found.by_label, found.jobs),
    )
    return tuple(kind for kind in kinds if kind.shares)


def is_silenced_at(now: datetime) -> Callable[[FailureInfo], bool]:
    return lambda one: one.silenced_until is not None and one.silenced_until > now


def strip(hours: tuple[int, ...], now: datetime) -> Strip:
    """`hours` are counts, that of the current hour last."""
    most, began = max(hours, default=0), now.replace(minute=0, second=0, microsecond=0)
    bars: list[HourBar] = []
    for place, count in enumerate(hours):
        if count:
            height = max(BAR_MIN, round(STRIP_HEIGHT * count / most))
            at = began - timedelta(hours=len(hours) - 1 - place)
            bars.append(HourBar(place * STEP, STRIP_HEIGHT - height, height, count, at))
    span = f"{len(hours)} hours" if len(hours) <= 24 else f"{len(hours) // 24} days"
    attempts = "attempt" if sum(hours) == 1 else "attempts"
    words = f"{number(sum(hours))} failed {attempts} in {span}, at most {number(most)} in an hour"
    return Strip(tuple(bars), len(hours) * STEP, words)
