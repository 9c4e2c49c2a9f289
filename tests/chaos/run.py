"""One run of chaos over one store: attack, heal, drain, judge."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.brokers import broker
from chaos.client import Client
from chaos.clocks import Clock
from chaos.faults import Attack
from chaos.fleet import FULL, Fleet
from chaos.ground import Ground, ground
from chaos.journals import runs
from chaos.verdict import Journals, Record, Verdict, judge
from conditions import eventually
from crash.invariants import Invariants, lines, occurrences
from onbeat.model.attempt import OutcomeName
from onbeat.model.job import Job
from transports.proxy import Proxy

STEP = timedelta(seconds=0.5)
DRAIN_WITHIN = 180.0
START_WITHIN = 180.0  # nine interpreters on a busy machine


@dataclass(frozen=True)
class Outcome:
    """`counts` are for the line of proofs."""

    verdict: Verdict
    faults: list[str]
    refusals: list[str]
    counts: Counter[str]

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.refusals


async def chaos(
    kind: str,
    seconds: float,
    seed: int,
    sizes: dict[str, int] = FULL,
    only: Collection[str] = (),
    *,
    over: str | None = None,
) -> Outcome:
    """Over `rabbitmq` or `redis` where that is named. `only` are the names of faults."""
    chance = random.Random(f"{seed} {kind}")
    with ground(kind) as (place, store), broker(over) as hints:
        fleet = Fleet(place, sizes, None if hints is None else hints.url)
        for member in fleet.members:
            member.clock = own_clock(store)
        async with contextlib.AsyncExitStack() as stack:
            wires = await wired(fleet, store, stack)
            await stack.enter_async_context(fleet.running())
            ports = [member.port for member in fleet.of("api")]
            await eventually(lambda: answers(ports), "the APIs answer", START_WITHIN)
            proxies = [await stack.enter_async_context(Proxy("127.0.0.1", port)) for port in ports]
            client = Client(place, [proxy.address for proxy in proxies], chance)
            async with client.sending():
                attack = Attack(fleet, store, hints, proxies, wires, client, chance)
                await attack.go_on(seconds, only)
            since = datetime.now(UTC)
            await drained(place, since)
        result = await asyncio.to_thread(collected, place, fleet, since)
        return Outcome(judge(result), attack.told, client.refusals, attack.counts)


def own_clock(store: Ground) -> Clock | None:
    """A file has the clock of the machine, so its programs are those whose clock is set."""
    return store.clock if store.address is None else None


async def wired(fleet: Fleet, store: Ground, stack: contextlib.AsyncExitStack) -> list[Proxy]:
    """What each worker asks the store through, where that is a server."""
    if store.address is None:
        return []
    host, port = store.address
    wires = []
    for member in fleet.of("worker"):
        wire = await stack.enter_async_context(Proxy(host, port))
        member.store = store.url.replace(f"{host}:{port}", wire.address)
        wires.append(wire)
    return wires


async def answers(ports: list[int]) -> bool:
    for port in ports:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
    return True


async def drained(place: Path, since: datetime) -> None:
    """Returns when all has ended that was due, or after so long: the judge sees what has not."""
    deadline = time.monotonic() + DRAIN_WITHIN
    while time.monotonic() < deadline:
        books = await asyncio.to_thread(Invariants.glance, place)
        if books.is_quiet(since):
            return
        await asyncio.sleep(1)


def collected(place: Path, fleet: Fleet, since: datetime) -> Journals:
    books = Invariants(place)
    wanted, result = occurrences(books, STEP)
    return written(
        place,
        records={
            job.id: record(job, books)
            for job in books.jobs.values()
            if job.is_final or job.occurrence is None or job.occurrence <= since
        },
        kills=fleet.kills,
        wanted=wanted,
        dispositions=result,
    )


def written(place: Path, **stored: Any) -> Journals:
    """What callers and handlers wrote down, beside what is stored."""
    return Journals(
        intents={int(number) for (number,) in lines(place / "intents")},
        answers=[(int(number), id) for number, id in lines(place / "answers")],
        runs=runs(place),
        **stored,
    )


def record(job: Job, books: Invariants) -> Record:
    lost = [
        attempt.token for attempt in books.attempts[job.id] if attempt.outcome is OutcomeName.LOST
    ]
    args = json.loads(bytes(job.target.args))
    return Record(
        id=job.id,
        task=job.target.task,
        state=job.state,
        token=job.token,
        number=args[0] if args else None,
        occurrence=job.occurrence,
        result=None if job.result is None else json.loads(bytes(job.result)),
        reason=job.reason,
        lost=frozenset(lost),
    )
