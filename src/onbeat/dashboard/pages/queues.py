"""Queues with their load and their limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.drawing.plot import strip
from onbeat.dashboard.forms import Texts, check_fields, whole_number
from onbeat.dashboard.links import link
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Invalid
from onbeat.model.limits import GROUPS_LOOK_MAX, PAUSE_NOTE_CHARS_MAX
from onbeat.operations.alerts import load_of_answer
from onbeat.operations.tables.fleet import QUEUE_LIMIT, QUEUE_LIST, QUEUE_PAUSE, QUEUE_SHOW
from onbeat.operations.tables.pulses import PULSE_QUEUES
from onbeat.rules.verdict import QueueState, needs_look_first, state_of_queue
from onbeat.wire.errors import status_of
from onbeat.wire.limits import LimitsAnswer
from onbeat.wire.queues import QueueAnswer

PAGE: Final = 100
STRIP_HEIGHT: Final = 20
STRIP_TALL: Final = 72
COUNTS: Final = ("concurrency", "group_concurrency")
SPANS: Final = ("rate", "group_rate", "late_after")
LIMITS: Final = {
    "concurrency": "at once",
    "rate": "starts, such as 100/s",
    "group_concurrency": "of a group at once",
    "group_rate": "starts of a group",
    "late_after": "late after, such as 5m",
}


@dataclass(frozen=True)
class StartedJobs:
    """Of one queue: how many in the last minute, if measured, and the last hour as path data."""

    last_minute: int | None
    path: str


StartsByQueue = Mapping[str, Sequence[int | None]]


@dataclass(frozen=True)
class StateWords:
    """What is said of a queue's state: the mark has the name of a state that the pages know."""

    mark: str
    word: str


STATE_WORDS: Final[Mapping[QueueState, StateWords]] = {
    "late": StateWords("silent", "late"),
    "full": StateWords("silent", "at its limit"),
    "paused": StateWords("paused", "paused"),
    "flowing": StateWords("active", "flowing"),
    "idle": StateWords("waiting", "idle"),
}


def words_of_states(
    queues: Iterable[QueueAnswer], starts: StartsByQueue, now: datetime
) -> Mapping[str, StateWords]:
    """By name of a queue. `starts` are those of each minute, the newest last."""
    return {
        queue.name: STATE_WORDS[state_of_queue(load_of_answer(queue, newest(starts, queue)), now)]
        for queue in queues
    }


def worst_first(
    queues: Iterable[QueueAnswer], starts: StartsByQueue, now: datetime
) -> Sequence[QueueAnswer]:
    def place(queue: QueueAnswer) -> tuple[int, int, str]:
        return needs_look_first(load_of_answer(queue, newest(starts, queue)), now)

    return sorted(queues, key=place)


def newest(starts: StartsByQueue, queue: QueueAnswer) -> int | None:
    """How many started in the last minute; None where that was not measured."""
    return starts[queue.name][-1] if queue.name in starts else None


async def queues_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(QUEUE_LIST, limit=PAGE)
    return await page_of(viewer, answer)


async def page_of(
    viewer: Viewer,
    answer: Any,
    typed: Mapping[str, Texts] | None = None,
    fault: str = "",
    status: int = HTTPStatus.OK,
) -> PageAnswer:
    """`typed` has the limits of a queue that were refused, and `fault` says why."""
    starts = (await viewer.ask(PULSE_QUEUES)).queues
    values = {
        "queues": answer.queues,
        "page": answer.page,
        "total": answer.total,
        "counted_at": answer.counted_at,
        "limit": answer.limit,
        "started": {
            name: StartedJobs(counts[-1], strip(counts, STRIP_HEIGHT))
            for name, counts in starts.items()
        },
        "state_words": words_of_states(answer.queues, starts, viewer.now),
        "limit_words": LIMITS,
        "texts_of": limit_texts,
        "typed": typed or {},
        "fault": fault,
    }
    return PageAnswer("queues.html", "Queues", "queues", values, status)


async def queue_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    return await one_queue(viewer)


async def one_queue(
    viewer: Viewer, note: str | None = None, fault: str = "", status: int = HTTPStatus.OK
) -> PageAnswer:
    """`note` is one that was refused, and `fault` says why."""
    queue = await viewer.ask(QUEUE_SHOW, name=viewer.request.path_params["name"])
    starts = (await viewer.ask(PULSE_QUEUES)).queues
    counts = starts.get(queue.name)
    values = {
        "queue": queue,
        "started": None if counts is None else StartedJobs(counts[-1], strip(counts, STRIP_TALL)),
        "limits": [
            (LIMITS[name], text) for name, text in limit_texts(queue.limits).items() if text
        ],
        "state_words": words_of_states([queue], starts, viewer.now),
        "looked": GROUPS_LOOK_MAX,
        "unset": UNSET,
        "note_max": PAUSE_NOTE_CHARS_MAX,
        "note": note,
        "fault": fault,
    }
    return PageAnswer("queue.html", f"Queue {queue.name}", "queues", values, status)


async def pause_queue(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    """Paused with a note, or with none."""
    name, note = viewer.request.path_params["name"], texts.get("note", "").strip()
    viewer.check_may(QUEUE_PAUSE)
    check_fields(texts, "note")
    try:
        await viewer.tell(QUEUE_PAUSE, {"note": note or None}, name=name)
    except Invalid as error:
        return await one_queue(viewer, note, f"Note: {error}", status_of(error).status)
    return RedirectResponse(link("queues", name), HTTPStatus.SEE_OTHER)


def limit_texts(limits: LimitsAnswer) -> dict[str, str]:
    found = {name: getattr(limits, name) for name in LIMITS}
    return {name: "" if value is UNSET else str(value) for name, value in found.items()}


async def limit_queue(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    """The limits as typed, from the next claim on; an empty field is no limit."""
    name = viewer.request.path_params["name"]
    viewer.check_may(QUEUE_LIMIT)
    check_fields(texts, *LIMITS)
    try:
        body: dict[str, Any] = {one: whole_number(texts, one) for one in COUNTS if one in texts}
        body |= {one: texts[one].strip() or None for one in SPANS if one in texts}
        await viewer.tell(QUEUE_LIMIT, body, name=name)
    except Invalid as error:
        answer = await viewer.ask(QUEUE_LIST, limit=PAGE)
        words = LIMITS.get(error.field, "")
        fault = f"{words}: {error}" if words else str(error)
        return await page_of(viewer, answer, {name: texts}, fault, status_of(error).status)
    return RedirectResponse(link("queues"), HTTPStatus.SEE_OTHER)
