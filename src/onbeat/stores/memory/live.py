"""What processes tell each other for the live stream: a store in memory has one process."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.live import StreamBatch
from onbeat.stores.memory.tables import StreamTables


def stream_watchers(tables: StreamTables, now: datetime) -> Sequence[str]:
    return sorted(process for process, until in tables.watchers.items() if until > now)


def add_stream_batch(tables: StreamTables, batch: StreamBatch) -> None:
    tables.batches.setdefault((batch.at, batch.source, batch.seq), batch)


def stream_batches(
    tables: StreamTables, since: datetime, besides: str, limit: int
) -> Sequence[StreamBatch]:
    found = sorted(
        key for key in tables.batches if key[0] >= since and tables.batches[key].source != besides
    )
    return [tables.batches[key] for key in found[:limit]]


def prune_stream(tables: StreamTables, before: datetime, limit: int) -> int:
    for process in [one for one, until in tables.watchers.items() if until < before]:
        del tables.watchers[process]
    old = sorted(key for key in tables.batches if key[0] < before)[:limit]
    for key in old:
        del tables.batches[key]
    return len(old)
