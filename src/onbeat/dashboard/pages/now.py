"""The first page: what is broken, since when, and what runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from onbeat.dashboard.pages.alerts import OPEN_SHOWN, place_of_concern
from onbeat.dashboard.pages.plots import drawing_of
from onbeat.dashboard.pages.queues import words_of_states, worst_first
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.operations.alerts import concerns_now, load_of_answer
from onbeat.operations.tables.alerts import ALERT_LIST
from onbeat.operations.tables.fleet import QUEUE_LIST, WORKER_LIST
from onbeat.operations.tables.jobs import JOB_LIST
from onbeat.operations.tables.pulses import PULSE_QUEUES, PULSE_SHOW
from onbeat.operations.tables.schedules import SCHEDULE_FORECAST, SCHEDULE_LIST
from onbeat.rules.verdict import is_late

QUEUES_SHOWN: Final = 8
CONCERNS_SHOWN: Final = 6
NEXT_SHOWN: Final = 8
ENDED_SHOWN: Final = 3
SCHEDULES_SEARCHED: Final = 100
STARTS_IN_WORDS: Final = 3
SOON: Final = timedelta(minutes=10)
SPANS: Final = ("hour", "day", "week")


@dataclass(frozen=True)
class NextFire:
    at: datetime
    id: str
    name: str


@dataclass(frozen=True)
class Coming:
    """How many fires the next ten minutes have, and the next of the schedules that fire first."""

    fires: int
    first: Sequence[NextFire]


async def now_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters("span")
    span = viewer.query.get("span", SPANS[0])
    hour = (await viewer.ask(PULSE_SHOW, span="hour")).points
    points = hour if span == "hour" else (await viewer.ask(PULSE_SHOW, span=span)).points
    load = await load_now(viewer)
    drawing = drawing_of(viewer, points, load["process_starts"])
    values = {
        **load,
        "rates": drawing_of(viewer, hour, load["process_starts"]).rates,
        "span": span,
        "spans": SPANS,
        "plots": drawing.plots,
        "starts": [event.words for event in drawing.plots[0].plot.events[-STARTS_IN_WORDS:]],
        "rows": drawing.rows,
        "coming": await coming_fires(viewer),
        "state_words": words_of_states(load["queues"], load["started"], viewer.now),
    }
    worst = load["concerns"]
    return PageAnswer("now.html", worst[0].text if worst else "All on time", "now", values)


async def load_now(viewer: Viewer) -> dict[str, Any]:
    """What stands in the queues, who runs it, and what needs somebody."""
    listed = await viewer.ask(QUEUE_LIST, limit=PAGE_LIMIT_MAX)
    queues = listed.queues
    workers = (await viewer.ask(WORKER_LIST, jobs=0)).workers
    failed = (await viewer.ask(JOB_LIST, state="failed", limit=1)).jobs
    starts = (await viewer.ask(PULSE_QUEUES)).queues
    alive = [worker for worker in workers if worker.alive]
    known = await viewer.ask(ALERT_LIST, limit=OPEN_SHOWN)
    alerts = {one.key: one for one in known.alerts}
    quiet = {one.key for one in known.alerts if one.silenced}
    is_whole = listed.total == len(queues)
    loads = [load_of_answer(queue) for queue in queues] if is_whole else None
    found = sorted(await concerns_now(viewer.context, loads), key=lambda one: one.key in quiet)
    oldest = min(
        (queue for queue in queues if queue.oldest_due_at and not queue.paused),
        key=lambda queue: queue.oldest_due_at or viewer.now,
        default=None,
    )
    return {
        "concerns": found[:CONCERNS_SHOWN],
        "alerts": alerts,
        "silences": known.silences,
        "ended": (await viewer.ask(ALERT_LIST, state="ended", limit=ENDED_SHOWN)).alerts,
        "place_of": place_of_concern,
        "more_concerns": max(0, len(found) - CONCERNS_SHOWN),
        "last_failure": failed[0].finished_at if failed else None,
        "due": sum(queue.due for queue in queues),
        "waiting": sum(queue.waiting for queue in queues),
        "running": sum(queue.running for queue in queues),
        "slots": sum(worker.concurrency for worker in alive),
        "alive": len(alive),
        "silent": len(workers) - len(alive),
        "process_starts": [worker.started_at for worker in workers],
        "oldest": oldest,
        "oldest_is_late": oldest is not None and is_late(load_of_answer(oldest), viewer.now),
        "queues": worst_first(queues, starts, viewer.now)[:QUEUES_SHOWN],
        "started": starts,
        "queues_in_all": len(queues),
    }


async def coming_fires(viewer: Viewer) -> Coming | None:
    """None with so many schedules that the search for their next fires would delay the page."""
    answer = await viewer.ask(SCHEDULE_LIST, status="active", limit=SCHEDULES_SEARCHED)
    if answer.total > SCHEDULES_SEARCHED:
        return None
    span = {"from": viewer.now.isoformat(), "to": (viewer.now + SOON).isoformat()}
    forecast = await viewer.ask(SCHEDULE_FORECAST, **span)
    dated = [(one.next_at, one) for one in answer.schedules if one.next_at is not None]
    first = sorted(dated, key=lambda item: item[0])[:NEXT_SHOWN]
    fires = [NextFire(at, schedule.id, schedule.name) for at, schedule in first]
    return Coming(fires=forecast.fires, first=fires)
