"""The scripts of a schema's migrations, in the order of their numbers."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import SchemaChange

ALONE: Final = "-- Breaks the statements of programs that run already."
"""The first line of a migration during which no older program may use the store."""
NAMED_MAX: Final = 5  # running programs that an error names

WORKER = msgspec.json.Decoder(WorkerRecord)


@cache
def read_migrations(package: str) -> tuple[str, ...]:
    """All scripts in order; the number in the name is the schema's version after it."""
    folder = files(package) / "migrations"
    scripts = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in scripts)


def change_to(url: str, scripts: Sequence[str], before: int) -> SchemaChange:
    """The change by all of the scripts to a database with the schema `before`."""
    return SchemaChange(url=url, before=before, after=len(scripts))


def refuse_newer(database: str, version: int, known: int, newest: int) -> None:
    """`known` is the newest schema that is expected there, `newest` that of this program."""
    if version > known:
        raise Misconfigured(
            f"{database} has schema {version}, and this program knows up to {newest}; "
            "start the newer program that wrote it",
            key="store",
        )


def needs_store_alone(scripts: Sequence[str]) -> bool:
    return any(script.startswith(ALONE) for script in scripts)


def refuse_running(database: str, workers: Iterable[str], now: datetime, newest: int) -> None:
    """`workers` are the stored records; `now` is by the clock of the store.

    A worker that was killed counts as running until its lease has ended.
    """
    running = [worker for worker in map(WORKER.decode, workers) if is_running(worker, now)]
    if running:
        names = [f"{worker.host}:{worker.pid}" for worker in running]
        rest = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        count = "a worker" if len(names) == 1 else f"{len(names)} workers"
        raise Misconfigured(
            f"{database} is used by {count} of an older version "
            f"({', '.join(names[:NAMED_MAX])}{rest}), which would fail with schema {newest}; "
            "stop every older program, then start this one again",
            key="store",
        )


def is_running(worker: WorkerRecord, now: datetime) -> bool:
    lease = timedelta(seconds=worker.lease_seconds)
    return worker.beat_at is not None and abs(now - worker.beat_at) < lease
