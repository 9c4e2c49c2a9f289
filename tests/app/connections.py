"""Connections of every kind that is accepted, each with the way to commit and to roll back."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import apsw
import asyncpg
from apsw import Connection

PATIENCE = 60

# Plain connections, and how each begins, commits and rolls back


@contextlib.contextmanager
def of_sqlite3(
    place: str,
) -> Iterator[tuple[sqlite3.Connection, Callable[..., Any], Callable[..., Any]] | None]:
    db = sqlite3.connect(place)
    db.row_factory = lambda _cursor, row: {"row": row}
    with contextlib.closing(db):
        yield db, db.commit, db.rollback


@contextlib.contextmanager
def of_apsw(
    place: str,
) -> Iterator[tuple[Connection, Callable[..., Any], Callable[..., Any]] | None]:
    db = apsw.Connection(place)
    db.set_busy_timeout(PATIENCE * 1_000)
    db.row_trace = lambda _cursor, row: {"row": row}
    db.execute("BEGIN")
    try:
        yield db, lambda: db.execute("COMMIT"), lambda: db.execute("ROLLBACK")
    finally:
        db.close()


@contextlib.contextmanager
def of_psycopg(place: str) -> Iterator[tuple[Any, Callable[..., Any], Callable[..., Any]] | None]:
    psycopg = import_module("psycopg")
    factories = {"row_factory": psycopg.rows.dict_row, "cursor_factory": psycopg.RawCursor}
    db = psycopg.connect(place, **factories)
    with contextlib.closing(db):
        yield db, db.commit, db.rollback


@contextlib.contextmanager
def of_alchemy_session(place: Any) -> Iterator[Any]:
    with engine(place) as made:
        from sqlalchemy.orm import Session  # noqa: PLC0415

        class Own(Session):
            """As programs and frameworks have it."""

        with Own(made) as session:
            yield session, session.commit, session.rollback


@contextlib.contextmanager
def of_alchemy_scoped(place: Any) -> Iterator[Any]:
    with engine(place) as made:
        from sqlalchemy.orm import scoped_session, sessionmaker  # noqa: PLC0415

        session = scoped_session(sessionmaker(made))
        yield session, session.commit, session.rollback
        session.remove()


@contextlib.contextmanager
def of_alchemy_connection(place: Any) -> Iterator[Any]:
    with engine(place) as made, made.connect() as db:
        yield db, db.commit, db.rollback


@contextlib.contextmanager
def engine(place: Any) -> Iterator[Any]:
    sqlalchemy = import_module("sqlalchemy")
    if place.startswith("postgresql:"):
        import_module("psycopg")
        url = place.replace("postgresql:", "postgresql+psycopg:")
    else:
        url = f"sqlite:///{place}"
    made = sqlalchemy.create_engine(url)
    try:
        yield made
    finally:
        made.dispose()


PLAIN = {
    "sqlite3": ("sqlite", of_sqlite3),
    "apsw": ("sqlite", of_apsw),
    "sqlite session": ("sqlite", of_alchemy_session),
    "sqlite scoped": ("sqlite", of_alchemy_scoped),
    "sqlite connection": ("sqlite", of_alchemy_connection),
    "psycopg": ("postgresql", of_psycopg),
    "postgresql session": ("postgresql", of_alchemy_session),
    "postgresql scoped": ("postgresql", of_alchemy_scoped),
    "postgresql connection": ("postgresql", of_alchemy_connection),
}


# Asynchronous ones


@contextlib.asynccontextmanager
async def of_asyncpg(place: str) -> AsyncIterator[Any]:
    db = await asyncpg.connect(place)
    try:
        yield (db, *await begun(db))
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def of_asyncpg_pool(place: Any) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(place, min_size=1, max_size=1) as pool, pool.acquire() as db:
        yield (db, *await begun(db))


async def begun(db: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    transaction = db.transaction()
    await transaction.start()
    return transaction.commit, transaction.rollback


@contextlib.asynccontextmanager
async def of_async_psycopg(place: Any) -> AsyncIterator[Any]:
    psycopg = import_module("psycopg")
    db = await psycopg.AsyncConnection.connect(place, row_factory=psycopg.rows.dict_row)
    async with contextlib.aclosing(Closing(db)):
        yield db, db.commit, db.rollback


class Closing:
    def __init__(self, db: Any) -> None:
        self.aclose = db.close


@contextlib.asynccontextmanager
async def of_async_session(place: Any) -> AsyncIterator[Any]:
    async with async_engine(place) as made:
        from sqlalchemy.ext.asyncio import AsyncSession  # noqa: PLC0415

        async with AsyncSession(made) as session:
            yield session, session.commit, session.rollback


@contextlib.asynccontextmanager
async def of_async_connection(place: Any) -> AsyncIterator[Any]:
    async with async_engine(place) as made, made.connect() as db:
        yield db, db.commit, db.rollback


@contextlib.asynccontextmanager
async def async_engine(place: Any) -> AsyncIterator[Any]:
    import_module("greenlet")
    module = import_module("sqlalchemy.ext.asyncio")
    made = module.create_async_engine(place.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        yield made
    finally:
        await made.dispose()


ASYNC = {
    "asyncpg": of_asyncpg,
    "asyncpg pool": of_asyncpg_pool,
    "psycopg": of_async_psycopg,
    "session": of_async_session,
    "connection": of_async_connection,
}
