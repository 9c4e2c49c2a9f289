"""The first page: what is broken, since when, and what runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from onbeat.dashboard.pages.alerts import OPEN_SHOWN, place_of_concern
from onbeat.dashboard.pages.plots import drawing_of
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.operations.alerts import concerns_now
from onbeat.operations.table import (
    ALERT_LIST,
    JOB_LIST,
    PULSE_SHOW,
    QUEUE_LIST,
    SCHEDULE_FORECAST,
    SCHEDULE_LIST,
    WORKER_LIST,
)

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
    hour = await viewer.ask(PULSE_SHOW, span="hour")
    history = hour if span == "hour" else await viewer.ask(PULSE_SHOW, span=span)
    load = await load_now(viewer)
    drawing = drawing_of(viewer, history.points, load["started"])
    values = {
        **load,
        "rates": drawing_of(viewer, hour.points, load["started"]).rates,
        "span": span,
        "spans": SPANS,
        "plots": drawing.plots,
        "starts": [event.words for event in drawing.plots[0].events[-STARTS_IN_WORDS:]],
        "rows": drawing.rows,
        "coming": await coming_fires(viewer),
    }
    worst = load["concerns"]
    return PageAnswer("now.html", worst[0].text if worst else "All on time", "now", values)


async def load_now(viewer: Viewer) -> dict[str, Any]:
    """What stands in the queues, who runs it, and what needs somebody."""
    queues = (await viewer.ask(QUEUE_LIST, limit=PAGE_LIMIT_MAX)).queues
    workers = (await viewer.ask(WORKER_LIST, jobs=0)).workers
    failed = (await viewer.ask(JOB_LIST, state="failed", limit=1)).jobs
    alive = [worker for worker in workers if worker.alive]
    known = await viewer.ask(ALERT_LIST, limit=OPEN_SHOWN)
    alerts = {one.key: one for one in known.alerts}
    quiet = {one.key for one in known.alerts if one.silenced}
    found = sorted(await concerns_now(viewer.context), key=lambda one: one.key in quiet)
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
        "started": [worker.started_at for worker in workers],
        "oldest": oldest,
        "queues": sorted(queues, key=lambda queue: -queue.due)[:QUEUES_SHOWN],
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
