"""Sends heartbeats for a worker, in its sidecar process."""

import asyncio
import contextlib
import json
import socket

import msgspec

from onbeat.app.sidecar_messages import SidecarReport, SidecarStart, Silence
from onbeat.app.stores import open_store
from onbeat.app.system import SystemClock, is_process_running
from onbeat.engine.loop import PAUSE_MAX
from onbeat.engine.options import BEATS_PER_LEASE
from onbeat.model.errors import OnbeatError
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import Store
from onbeat.rules.liveness import needs_sidecar

ROW = msgspec.json.Decoder(WorkerRecord)
CLOSE_SECONDS = 1.0


def load_driver(url: str) -> None:
    """Import the driver of the store at `url`; no connection is made."""
    open_store(url)


class SidecarHeartbeat:
    """One period of silence of the worker: opens the store for it and closes it after it."""

    def __init__(self, order: SidecarStart, silence: Silence, link: socket.socket) -> None:
        self.start = order
        self.silence = silence
        self.link = link
        self.rows = [ROW.decode(answer.row) for answer in silence.last_sign.values()]
        self.lease_seconds = min(row.lease_seconds for row in self.rows)
        self.beats = 0

    def run(self) -> None:
        """Returns on the worker's next sign of life, or when its heartbeats must end."""
        if self.is_wanted:
            asyncio.run(self.beat_until_worker_returns())

    async def beat_until_worker_returns(self) -> None:
        beating = asyncio.create_task(self.beat_while_wanted())
        loop = asyncio.get_running_loop()
        loop.add_reader(self.link, beating.cancel)
        try:
            await asyncio.wait({beating})
        finally:
            loop.remove_reader(self.link)

    @property
    def is_wanted(self) -> bool:
        return needs_sidecar(
            self.silence.seconds, self.lease_seconds, runs=is_process_running(self.start.pid)
        )

    async def beat_while_wanted(self) -> None:
        store = open_store(self.start.url)
        try:
            while self.is_wanted:  # noqa: ASYNC110  a sign of life cancels it
                await asyncio.sleep(await self.try_beat(store))
        finally:
            with contextlib.suppress(OnbeatError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await store.close()

    async def try_beat(self, store: Store) -> float:
        """Send one heartbeat; returns the seconds until the next try."""
        period = self.lease_seconds / BEATS_PER_LEASE
        try:
            await store.open()
            await self.beat(store)
        except Exception as error:  # noqa: BLE001  reported and retried
            self.report(f"{type(error).__name__}: {error}")
            return min(period, PAUSE_MAX)
        self.report("")
        return period

    async def beat(self, store: Store) -> None:
        self.beats += 1
        for row in self.rows:
            beat = row.beat + self.beats
            at = SystemClock().now()
            # Check the process last: a stop after this is noticed at the next heartbeat.
            if self.is_wanted:
                await store.heartbeat(msgspec.structs.replace(row, beat=beat, beat_at=at))

    def report(self, error: str) -> None:
        highest = max(row.beat for row in self.rows) + self.beats
        report = SidecarReport(highest, self.silence.seconds, error)
        with contextlib.suppress(OSError):  # drop the report if the worker's buffer is full
            self.link.send(json.dumps(report).encode())
