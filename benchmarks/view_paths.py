"""What `view.py` asks for: every page, its sections, and the lists of the API."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from benchmarks.view_service import Service, asked
from benchmarks.view_store import PAST, Past
from onbeat.dashboard.routes import PAGES

PART: Final = re.compile(rb'data-part="([a-z]+)"')
NO_ID: Final = "01900000-0000-7000-8000-000000000000"


async def paths_of(running: Service, past: Past) -> list[str]:
    """Every path of `dashboard.routes`, with filters that are easy and hard, and their parts."""
    now = datetime.now(UTC)
    pages = [path for pattern in PAGES for path in await known(running, past, pattern)]
    pages += [f"/jobs?{query}" for query in searches(past, now)]
    pages += [f"/?span={span}" for span in ("day", "week")]
    pages += [f"/timeline?span={span}" for span in ("6h", "week")]
    pages += [f"/timeline?day={(now - timedelta(days=3)).date()}", "/timeline?order=next"]
    lists = [f"/api/jobs?{query}" for query in searches(past, now)]
    return [*pages, *await parts_of(running, pages), *lists, *others(past)]


async def known(running: Service, past: Past, pattern: str) -> list[str]:
    """The page with ids in its path: several where it has several kinds of things."""
    if "{" not in pattern:
        return [pattern]
    ids: dict[str, list[str]] = {
        "/schedules": [past.schedules[0], past.schedules[-1]],
        "/jobs": [past.failed, past.succeeded, past.waiting, past.deep],
        "/failures": [str(past.faults[0])],
        "/queues": ["queue.7", "default"],
        "/flows": [past.flow],
        "/events": await ids_in(running, "/api/events?limit=1", "events"),
        "/dead": await ids_in(running, "/api/dead?limit=1", "letters"),
    }
    begin, _, rest = pattern.partition("/{")
    end = rest.partition("}")[2]
    return [f"{begin}/{quote(id, safe='')}{end}" for id in ids[begin]]


async def ids_in(running: Service, path: str, name: str) -> list[str]:
    status, body = await asked(running, path)
    return [one["id"] for one in json.loads(body)[name]] if status == 200 else []


async def parts_of(running: Service, pages: list[str]) -> list[str]:
    found: list[str] = []
    for path in pages:
        _, body = await asked(running, path)
        mark = "&" if "?" in path else "?"
        found += [f"{path}{mark}part={name.decode()}" for name in dict.fromkeys(PART.findall(body))]
    return found


def searches(past: Past, now: datetime) -> list[str]:
    """Filters of a list of jobs, from those that an index answers to those that find nothing."""

    def ago(span: timedelta) -> str:
        return quote((now - span).isoformat().replace("+00:00", "Z"))

    return [
        "state=failed", "state=cancelled", "state=running", "state=succeeded", "state=waiting",
        f"cursor={past.deep}", f"state=failed&cursor={past.deep}",
        "queue=queue.7", "queue=none", "task=task.7", "task=task.*", "task=none", "task=none*",
        "task=task.7&state=failed", "queue=queue.7&state=waiting", "task=none&state=waiting",
        "label=tenant%3At7", "label=run%3Arare", "label=none%3Anone",
        "label=none%3Anone&state=failed",
        "error=no+answer", "error=nothing+like+it", "error=nothing+like+it&state=failed",
        f"error=nothing+like+it&cursor={past.deep}",
        f"since={ago(timedelta(hours=1))}", f"until={ago(timedelta(hours=1))}",
        f"since={ago(PAST)}&until={ago(PAST - timedelta(hours=1))}",
        f"until={ago(PAST - timedelta(hours=1))}&state=succeeded",
        f"schedule_id={past.schedules[0]}", f"schedule_id={past.schedules[0]}&state=failed",
        f"schedule_id={past.schedules[0]}&task=none", f"schedule_id={NO_ID}",
        f"fault={past.faults[0]}", f"fault={past.faults[0]}&state=failed",
        f"fault={past.faults[0]}&task=none", f"flow={past.flow}", f"flow={past.flow}&task=none",
        "limit=1000",
    ]  # fmt: skip


def others(past: Past) -> list[str]:
    schedule = past.schedules[0]
    return [
        "/api/stats", "/api/queues", "/api/queues?limit=1000", "/api/workers", "/api/alerts",
        "/api/failures", f"/api/failures/{past.faults[0]}", "/api/pulses", "/api/pulses?span=week",
        "/api/pulses?queue=queue.7", "/api/pulses?span=week&task=task.7",
        "/api/timeline", "/api/timeline?span=week", f"/api/timeline?schedule_id={schedule}",
        "/api/schedules", f"/api/schedules/{schedule}/occurrences?limit=500",
        f"/api/schedules/{schedule}/preview", f"/api/jobs/{past.waiting}/why",
        f"/api/jobs/{past.failed}", f"/api/flows/{past.flow}", f"/api/flows/{past.flow}?limit=1000",
        "/api/events", "/api/events?type=shop.7", "/api/events?type=none*", "/api/audit",
        "/api/dead", "/api/dead-groups", "/metrics", "/healthz",
    ]  # fmt: skip
