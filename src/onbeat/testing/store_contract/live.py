"""What processes tell each other for the live stream."""

from datetime import datetime

from onbeat.model.live import StreamBatch
from onbeat.ports.store import Store
from onbeat.testing.build import MINUTE, NOW, SECOND


def a_batch(source: str = "a", seq: int = 1, at: datetime = NOW, body: str = "{}") -> StreamBatch:
    return StreamBatch(source=source, seq=seq, at=at, body=body, missed=seq)


class LiveContract:
    async def test_a_process_watches_until_its_time_is_over(self, store: Store) -> None:
        await store.watch_stream("b", NOW + MINUTE)
        await store.watch_stream("a", NOW + SECOND)
        assert list(await store.stream_watchers(NOW)) == ["a", "b"]
        assert list(await store.stream_watchers(NOW + SECOND)) == ["b"]
        await store.watch_stream("a", NOW + 2 * MINUTE)
        assert list(await store.stream_watchers(NOW + MINUTE)) == ["a"]

    async def test_a_process_reads_the_batches_of_others_in_order(self, store: Store) -> None:
        body = '{"events":[{"kind":"job","id":"\U0001f600\\"\'"}]}' + " " * 70_000
        later, first = a_batch("b", 2, NOW + SECOND, body), a_batch("b", 1)
        for batch in (later, a_batch("me", 7), first, a_batch("a", 9, NOW - SECOND)):
            await store.add_stream_batch(batch)
        assert list(await store.stream_batches(NOW, "me", 10)) == [first, later]
        assert list(await store.stream_batches(NOW, "me", 1)) == [first]
        assert list(await store.stream_batches(NOW, "b", 10)) == [a_batch("me", 7)]

    async def test_a_batch_is_stored_once(self, store: Store) -> None:
        await store.add_stream_batch(a_batch(body="1"))
        await store.add_stream_batch(a_batch(body="2"))
        assert list(await store.stream_batches(NOW, "me", 10)) == [a_batch(body="1")]

    async def test_old_batches_and_watchers_are_deleted(self, store: Store) -> None:
        for seq in range(5):
            await store.add_stream_batch(a_batch("a", seq, NOW + seq * SECOND))
        await store.watch_stream("past", NOW - SECOND)
        await store.watch_stream("now", NOW + MINUTE)
        assert await store.prune_stream(NOW + 3 * SECOND, 2) == 2
        assert await store.prune_stream(NOW + 3 * SECOND, 2) == 1
        assert await store.prune_stream(NOW + 3 * SECOND, 2) == 0
        left = await store.stream_batches(NOW, "me", 10)
        assert [batch.seq for batch in left] == [3, 4]
        assert list(await store.stream_watchers(NOW - MINUTE)) == ["now"]
