"""What the demo has: schedules, queues, jobs, an event. To put it twice adds nothing."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import aiohttp
from receiver import Receiver

BERLIN, NEW_YORK, KOLKATA = "Europe/Berlin", "America/New_York", "Asia/Kolkata"
MAIL_EVERY = 5
REPORTS = 400
REPORTS_MORE = 75
"""What two at a time, of 8 seconds each, can do in 5 minutes; so the backlog stays."""
DAY = timedelta(days=1)
QUEUES: dict[str, dict[str, object]] = {
    "reports": {"concurrency": 2},
    "imports": {"concurrency": 2, "group_concurrency": 1, "fair": True},
}


def schedules(receiver: Receiver, now: datetime) -> dict[str, dict[str, Any]]:
    """All fourteen by their keys, in the form of the REST API."""
    change = change_after(now, BERLIN)
    return {
        "demo-pulse": {
            "name": "Pulse, every 2 seconds",
            "rrule": "FREQ=SECONDLY;INTERVAL=2",
            **calls(receiver, "/pulse"),
        },
        "demo-stubborn": {
            "name": "Fails twice, then succeeds",
            "every": "20s",
            "retry": {"attempts_max": 5, "backoff": "fixed", "delay": "1s", "jitter": False},
            **calls(receiver, "/stubborn"),
        },
        "demo-berlin": {
            "name": "In Berlin's daytime, four times a minute",
            "rrule": f"FREQ=SECONDLY;INTERVAL=15;BYHOUR={','.join(map(str, range(6, 23)))}",
            "timezone": BERLIN,
            **calls(receiver, "/berlin"),
        },
        "demo-month": {
            "name": "Close the month, on its last Sunday night",
            "rrule": "FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=2;BYMINUTE=30;BYSECOND=0",
            "timezone": BERLIN,
            "dst_gap": "skip",
            "target": {"task": "ledger.close"},
        },
        "demo-change": {
            "name": f"An hour before the clocks of Berlin change on {change:%d %B}",
            "at": f"{change - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
            "timezone": BERLIN,
            "target": {"task": "ledger.close"},
        },
        "demo-ledger": {
            "name": "Hourly ledger of Kolkata",
            "cron": "0 * * * *",
            "timezone": KOLKATA,
            "target": {"task": "ledger.close"},
        },
        "demo-meters": {
            "name": "Read the meters, every quarter of an hour",
            "cron": "*/15 * * * *",
            "timezone": NEW_YORK,
            "target": {"task": "ledger.close"},
        },
        "demo-reports": {
            "name": "Reports for New York, every 5 minutes",
            "cron": "*/5 * * * *",
            "timezone": NEW_YORK,
            "target": {"task": "report.request", "args": [REPORTS_MORE]},
        },
        "demo-stock": {
            "name": "Count the stock, which takes longer than it should",
            "rrule": "FREQ=SECONDLY;INTERVAL=10",
            "overlap": "skip",
            "target": {"task": "stock.count"},
        },
        "demo-export": {
            "name": "Yearly export, paused for the audit",
            "cron": "0 6 2 1 *",
            "timezone": NEW_YORK,
            "status": "paused",
            "labels": {"note": "paused until the auditors have left; ask finance"},
            "target": {"task": "ledger.close"},
        },
        "demo-release": {
            "name": "Release, whose deployment fails",
            "every": "3m",
            "target": {"task": "release.start"},
        },
        "demo-mail": {
            "name": "Mail, of which one in eight fails",
            "rrule": f"FREQ=SECONDLY;INTERVAL={MAIL_EVERY}",
            "target": {"task": "mail.send", "args": [MAIL_EVERY]},
        },
        "demo-shop": {
            "name": "Tell the shop, which is down for 40 seconds",
            "every": "10m",
            "target": {"task": "shop.sync", "args": [f"{receiver.shop}/stock"]},
        },
        "demo-tenants": {
            "name": "Imports of four tenants",
            "every": "30s",
            "target": {"task": "tenant.export"},
        },
    }


def calls(receiver: Receiver, path: str) -> dict[str, str]:
    return {"callback_url": receiver.url + path, "method": "POST"}


def change_after(now: datetime, zone: str) -> datetime:
    """When the clocks of a zone change next, in UTC: the first hour with another offset."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    offset = hour.astimezone(ZoneInfo(zone)).utcoffset()
    for _ in range(400 * 24):
        hour += timedelta(hours=1)
        if hour.astimezone(ZoneInfo(zone)).utcoffset() != offset:
            return hour
    raise ValueError(f"the clocks of {zone} do not change")


AT_ONCE = ("demo-release", "demo-shop", "demo-tenants")
"""Whose first occurrence nobody should have to wait for."""
BACKFILLED = ("demo-ledger", "demo-meters")
"""Which have run through the day before."""


async def put_everything(session: aiohttp.ClientSession, receiver: Receiver) -> None:
    now = datetime.now(UTC)
    for queue, limits in QUEUES.items():
        await ask(session, "PUT", f"/api/queues/{queue}", limits)
    for key, body in schedules(receiver, now).items():
        answer = await ask(session, "PUT", f"/api/schedules-by-key/{key}", body)
        if answer.get("created", True):
            await begin(session, key, answer["id"], now)
    await put_jobs(session)
    event = {
        "type": "weather.changed",
        "source": "/demo",
        "id": "weather-1",
        "data": {"sky": "clear"},
    }
    await ask(session, "POST", "/api/events", event)
    await put_dead_letter(session)


async def begin(session: aiohttp.ClientSession, key: str, id: str, now: datetime) -> None:
    """What only a new schedule gets."""
    if key in AT_ONCE:
        await ask(session, "POST", f"/api/schedules/{id}/trigger")
    if key in BACKFILLED:
        span = {"from": (now - DAY).isoformat(), "to": now.isoformat()}
        await ask(session, "POST", f"/api/schedules/{id}/backfill", span)


async def put_jobs(session: aiohttp.ClientSession) -> None:
    """A backlog of reports, and a job that no worker knows. Their keys are taken for ever."""
    once = {"unique_for": "always"}
    reports = [
        {"task": "report.render", "args": [number], "queue": "reports", "unique": f"demo {number}"}
        for number in range(REPORTS)
    ]
    unknown = {"task": "legacy.cleanup", "queue": "legacy", "unique": "demo unknown"}
    await ask(session, "POST", "/api/jobs", {"jobs": [job | once for job in [*reports, unknown]]})


async def put_dead_letter(session: aiohttp.ClientSession) -> None:
    """A submission for a task that nobody knows is kept for people to look at."""
    if not (await ask(session, "GET", "/api/dead"))["letters"]:
        call = {
            "jsonrpc": "2.0",
            "method": "submit:legacy.export",
            "params": {"year": 2019},
            "id": 1,
        }
        await ask(session, "POST", "/rpc", call)


async def ask(session: aiohttp.ClientSession, method: str, path: str, body: object = None) -> Any:
    async with session.request(method, path, json=body) as response:
        if response.status >= 300:
            sys.exit(f"{method} {path}: {await response.text()}")
        return await response.json()
