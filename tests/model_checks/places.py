"""Stores of each kind, opened several times over, as several processes would."""

import asyncio
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from model_checks.racer import STORE_CLASSES, a_store
from onbeat.ports.store import Store
from onbeat.stores.memory import MemoryStore
from stores.mysql import server as mysql
from stores.postgres import server as postgres

SQL_STORES = tuple(STORE_CLASSES)
STORES = ("memory", *SQL_STORES)


@contextmanager
def place_of(kind: str, folder: Path) -> Generator[str]:
    """A new, empty place for a store of this kind, by its path or URL."""
    match kind:
        case "sqlite":
            yield str(folder / "onbeat.db")
        case "postgres":
            with postgres.database(f"onbeat_model_{os.getpid()}") as url:
                yield url
        case _:
            with mysql.database() as url:
                yield url


@contextmanager
def opened(kind: str, folder: Path, runner: asyncio.Runner, count: int) -> Generator[list[Store]]:
    """The same store `count` times, each with connections of its own."""
    if kind == "memory":
        yield [MemoryStore()] * count
        return
    with ExitStack() as stack:
        place = stack.enter_context(place_of(kind, folder))
        stores = [a_store(kind, place) for _ in range(count)]
        for store in stores:
            runner.run(store.open())
            stack.callback(close, runner, store)
        yield stores


def close(runner: asyncio.Runner, store: Store) -> None:
    runner.run(store.close())
