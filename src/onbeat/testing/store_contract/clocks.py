"""The clock of a store."""

from datetime import UTC

from onbeat.ports.store import Store


class ClockContract:
    async def test_its_own_clock_shows_instants_in_utc_that_go_on(self, store: Store) -> None:
        """A store without a clock always returns None."""
        shown = [await store.now() for _ in range(20)]
        if None in shown:
            assert set(shown) == {None}
            return
        instants = [at for at in shown if at is not None]
        assert all(at.tzinfo is not None and at.utcoffset() == UTC.utcoffset(at) for at in instants)
        assert instants == sorted(instants)
        assert len(set(instants)) > 1, "in parts of a second"

    async def test_its_own_clock_goes_on_between_calls_of_other_kinds(self, store: Store) -> None:
        before = await store.now()
        await store.ping()
        after = await store.now()
        assert before is after is None or (before is not None and after is not None)
        assert before is None or after is None or before < after
