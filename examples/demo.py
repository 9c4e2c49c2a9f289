"""The live demo of `make run`: a service, a receiver, four schedules, and their calls.

It runs a normal `onbeat up` on SQLite, which calls a small web server in this process. Stop it with
Ctrl-C; a new start continues with the same store.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from aiohttp import web
from rich.console import Console

FOLDER = Path(".run")
READY_WITHIN = 30.0
console = Console(highlight=False)

SCHEDULES = [
    {
        "key": "demo-pulse",
        "name": "pulse, every 2 seconds",
        "rrule": "FREQ=SECONDLY;INTERVAL=2",
        "path": "/pulse",
    },
    {
        "key": "demo-minute",
        "name": "on the minute",
        "cron": "* * * * *",
        "path": "/minute",
    },
    {
        "key": "demo-stubborn",
        "name": "fails twice, then succeeds",
        "every": "20s",
        "path": "/stubborn",
        "retry": {"attempts_max": 5, "backoff": "fixed", "delay": "1s", "jitter": False},
    },
    {
        "key": "demo-berlin",
        "name": "in Berlin's daytime, four times a minute",
        "rrule": "FREQ=SECONDLY;INTERVAL=15;BYHOUR=6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22",
        "timezone": "Europe/Berlin",
        "path": "/berlin",
    },
]


class Receiver:
    """A web server in the place of your own; prints every call that it gets."""

    def __init__(self) -> None:
        self.runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{name}", self.answer)
        self.runner = web.AppRunner(application)
        await self.runner.setup()
        listener = listening(0)
        self.port = listener.getsockname()[1]
        await web.SockSite(self.runner, listener).start()

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    async def answer(self, request: web.Request) -> web.Response:
        attempt = int(request.headers["Onbeat-Attempt"])
        refuses = request.match_info["name"] == "stubborn" and attempt < 3
        status = 503 if refuses else 204
        show(request, attempt, status)
        return web.Response(status=status)


def show(request: web.Request, attempt: int, status: int) -> None:
    now = datetime.now(UTC)
    due = datetime.fromisoformat(request.headers["Onbeat-Occurrence"])
    late = f"{(now - due).total_seconds() * 1000:6.1f} ms" if attempt == 1 else f"try {attempt}"
    colour = "green" if status < 300 else "yellow"
    console.print(
        f"[dim]{now.astimezone():%H:%M:%S.%f}[/dim]  {request.path:<10} due {due:%H:%M:%S}Z"
        f"  after {late:>9}  [{colour}]{status}[/{colour}]"
    )


def listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def free_port(wished: int) -> int:
    """The preferred port, or any other when that is in use."""
    try:
        with listening(wished) as listener:
            return int(listener.getsockname()[1])
    except OSError:
        with listening(0) as listener:
            return int(listener.getsockname()[1])


async def started_service(port: int) -> asyncio.subprocess.Process:
    log = FOLDER / "demo.log"
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "onbeat",
        "up",
        "--store",
        f"sqlite:///{FOLDER / 'demo.db'}",
        "--port",
        str(port),
        stdout=log.open("ab"),
        stderr=asyncio.subprocess.STDOUT,
        # This program handles Ctrl-C and then stops the service cleanly.
        start_new_session=True,
    )


async def until_ready(session: aiohttp.ClientSession, process: asyncio.subprocess.Process) -> None:
    give_up = time.monotonic() + READY_WITHIN
    while time.monotonic() < give_up and process.returncode is None:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get("/readyz") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.05)
    sys.exit(f"the service did not become ready; {FOLDER / 'demo.log'} says why")


async def put_schedules(session: aiohttp.ClientSession, receiver: Receiver) -> None:
    """Create the four schedules, or point those of an earlier run to the current receiver."""
    async with session.get("/api/schedules", params={"q": "demo-", "limit": 100}) as response:
        known = {it.get("key"): it["id"] for it in (await response.json())["schedules"]}
    for schedule in SCHEDULES:
        url = f"http://127.0.0.1:{receiver.port}{schedule['path']}"
        body = {key: value for key, value in schedule.items() if key != "path"}
        body |= {"callback_url": url, "method": "POST"}
        id = known.get(schedule["key"])
        method, path = ("PUT", f"/api/schedules/{id}") if id else ("POST", "/api/schedules")
        async with session.request(method, path, json=body) as response:
            if response.status >= 300:
                sys.exit(f"{schedule['name']}: {await response.text()}")


def say_where(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    console.print("\n[bold]Onbeat is running.[/bold]\n")
    console.print(f"  API         {base}/api/schedules")
    console.print(f"  Swagger UI  {base}/swagger-ui")
    console.print(f"  metrics     {base}/metrics")
    console.print(f"  store       {FOLDER / 'demo.db'}     log {FOLDER / 'demo.log'}\n")
    for schedule in SCHEDULES:
        rule = schedule.get("rrule") or schedule.get("cron") or f"every {schedule['every']}"
        console.print(
            f"  {schedule['path']:<10} {rule[:40]:<40} [dim]{schedule.get('timezone', 'UTC')}[/]"
        )
    console.print("\nWhat fires (Ctrl-C stops, and a new start goes on where this one was):\n")


async def demo() -> None:
    receiver = Receiver()
    await receiver.start()
    port = free_port(8080)
    process = await started_service(port)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            await until_ready(session, process)
            await put_schedules(session, receiver)
        say_where(port)
        ended = asyncio.create_task(process.wait())
        await asyncio.wait(
            [ended, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        console.print("\nstopping ...")
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        await process.wait()
        await receiver.stop()
        console.print("stopped; nothing is lost")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(demo())
