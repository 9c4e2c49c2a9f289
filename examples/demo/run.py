"""The live demo of `make run`: a service, the shop that it works for, and enough to look at.

It runs a normal `onbeat up` on SQLite, with the tasks of `app.py`. HTTP calls go to two small web
servers in this process, as do notices over the channel `ops`. Stop it with Ctrl-C; a new start goes
on with the same store and adds nothing twice. `make clean` deletes it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import aiohttp
from content import put_everything
from ports import ports
from receiver import NOTICES, Receiver, console

FOLDER = Path(".run")
APP = Path(__file__).with_name("app.py")
READY_WITHIN = 60.0
DRAIN = 5
"""Seconds for running jobs at the end; those that take longer are handed back, and run again."""


async def started_service(port: int, receiver: Receiver) -> asyncio.subprocess.Process:
    log = FOLDER / "demo.log"
    store = ["--store", f"sqlite:///{FOLDER / 'demo.db'}", "--port", str(port)]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "onbeat", "up", str(APP), *store, "--owner", "demo"),
        stdout=log.open("ab"),
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ
        | {
            "ONBEAT_CHANNELS": f"ops=webhook+{receiver.url}{NOTICES}",
            "ONBEAT_WORKER__DRAIN_TIMEOUT": f"{DRAIN}s",
        },
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


def say_what_to_try(base: str) -> None:
    for line in (
        f"\n[bold]Onbeat is running: {base}/[/bold]  (the dashboard)",
        "\nThree things to try:",
        "\n  1. See why every release fails, and retry its deployment:",
        f"     {base}/jobs?state=failed&queue=release",
        "  2. Watch the shop go down for 40 s, now and every ten minutes, and lose no job:",
        f"     {base}/jobs?queue=shop",
        "  3. Press Ctrl-C, wait for a minute, and start again. What was missed has run, or says",
        f"     why not: {base}/jobs?state=cancelled",
        f"\n  API         {base}/api/schedules",
        f"  Swagger UI  {base}/swagger-ui",
        f"  metrics     {base}/metrics",
        f"  store       {FOLDER / 'demo.db'}     log {FOLDER / 'demo.log'}",
        "\nWhat is called (Ctrl-C stops, and a new start goes on where this one was):\n",
    ):
        console.print(line, soft_wrap=True)


async def demo() -> None:
    port, *of_receiver = ports(FOLDER / "ports.json")
    receiver = Receiver()
    await receiver.start(*of_receiver)
    process = await started_service(port, receiver)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        base = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession(base) as session:
            await until_ready(session, process)
            say_what_to_try(base)
            await put_everything(session, receiver)
        ended = asyncio.create_task(process.wait())
        await asyncio.wait(
            [ended, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        console.print(f"\nstopping; what runs may end within {DRAIN} s ...")
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        await process.wait()
        await receiver.stop()
        console.print("stopped; nothing is lost")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(demo())
