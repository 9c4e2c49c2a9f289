"""What processes tell each other for the live stream."""

from collections.abc import Sequence

from onbeat.model.live import StreamBatch
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant

BATCH_COLUMNS = "at, source, seq, missed, body"
BATCH_KEY: Columns = {"at": "bigint", "source": "text", "seq": "bigint"}


async def watch_stream(session: Session, process: str, until: int) -> None:
    sql = f"""
        INSERT INTO onbeat.stream_watchers (process, until) VALUES (?, ?)
        {session.dialect.or_change("process", ["until"])}
    """  # noqa: S608  values are bound
    await session.execute(sql, process, until)


async def stream_watchers(session: Session, now: int) -> Sequence[str]:
    rest = "FROM onbeat.stream_watchers WHERE until > ? ORDER BY process"
    return [process for (process,) in await session.select("process", rest, now)]


async def add_stream_batch(session: Session, batch: StreamBatch, at: int) -> None:
    sql = f"""
        INSERT INTO onbeat.stream_batches ({BATCH_COLUMNS}) VALUES (?, ?, ?, ?, ?)
        {session.dialect.unless_there("at", "source", "seq")}
    """  # noqa: S608  values are bound
    await session.execute(sql, at, batch.source, batch.seq, batch.missed, batch.body)


async def stream_batches(
    session: Session, since: int, besides: str, limit: int
) -> Sequence[StreamBatch]:
    rest = """
        FROM onbeat.stream_batches
        WHERE at >= ? AND source <> ?
        ORDER BY at, source, seq
        LIMIT ?
    """
    rows = await session.select(BATCH_COLUMNS, rest, since, besides, limit)
    return [
        StreamBatch(source=source, seq=seq, at=instant(at), missed=missed, body=body)
        for at, source, seq, missed, body in rows
    ]


async def prune_stream(session: Session, before: int, limit: int) -> int:
    """Rows that another process deletes just now are skipped."""
    await session.execute("DELETE FROM onbeat.stream_watchers WHERE until < ?", before)
    rest = f"""
        FROM onbeat.stream_batches
        WHERE at < ?
        ORDER BY at, source, seq
        LIMIT ?
        {session.dialect.skip_locked}
    """
    old = await session.select("at, source, seq", rest, before, limit)
    await session.delete_rows("stream_batches", BATCH_KEY, old)
    return len(old)
