"""Dead letters, and their deletion."""

from typing import Any

from msgspec.structs import replace

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId
from onbeat.ports.store import Store
from onbeat.testing.build import DAY, NOW, an_id

EVERY_BYTE = bytes(range(256)) * 64


def a_dead_letter(**fields: Any) -> DeadLetter:
    letter = DeadLetter(
        id=DeadLetterId(an_id()), at=NOW, source="orders", reason="not JSON", body=b"{"
    )
    return replace(letter, **fields)


class DeadLetterContract:
    async def test_a_dead_letter_is_kept_as_it_came(self, store: Store) -> None:
        letter = a_dead_letter(
            body=EVERY_BYTE,
            headers={"content-type": "text/plain", "größe": "\u2028 \U0001f600"},
            reason="nicht lesbar: \u00e4",
        )
        await store.add_dead_letters([letter])
        assert list(await store.dead_letters(None, 10)) == [letter]

    async def test_an_empty_body_is_kept(self, store: Store) -> None:
        letter = a_dead_letter(body=b"")
        await store.add_dead_letters([letter])
        assert list(await store.dead_letters(None, 10)) == [letter]

    async def test_without_dead_letters_none_are_told(self, store: Store) -> None:
        await store.add_dead_letters([])
        assert list(await store.dead_letters(None, 10)) == []

    async def test_the_newest_are_told_first(self, store: Store) -> None:
        first, second, third = a_dead_letter(), a_dead_letter(), a_dead_letter()
        await store.add_dead_letters([second, first])
        await store.add_dead_letters([third])
        assert list(await store.dead_letters(None, 10)) == [third, second, first]

    async def test_at_most_the_limit_is_told_and_the_rest_below(self, store: Store) -> None:
        letters = [a_dead_letter() for _ in range(5)]
        await store.add_dead_letters(letters)
        newest = await store.dead_letters(None, 2)
        assert list(newest) == [letters[4], letters[3]]
        assert list(await store.dead_letters(newest[-1].id, 2)) == [letters[2], letters[1]]
        assert list(await store.dead_letters(letters[0].id, 2)) == []

    async def test_letters_of_one_source_are_told_alone(self, store: Store) -> None:
        letters = [
            a_dead_letter(source=source) for source in ("orders", "bills", "orders", "bills")
        ]
        await store.add_dead_letters(letters)
        assert list(await store.dead_letters(None, 1, "orders")) == [letters[2]]
        assert list(await store.dead_letters(letters[2].id, 9, "orders")) == [letters[0]]
        assert list(await store.dead_letters(None, 9, "Orders")) == []

    async def test_a_letter_that_is_kept_stays_as_it_is(self, store: Store) -> None:
        letter, new = a_dead_letter(), a_dead_letter()
        await store.add_dead_letters([letter])
        await store.add_dead_letters([replace(letter, reason="another"), new])
        assert list(await store.dead_letters(None, 10)) == [new, letter]

    async def test_a_letter_may_stand_twice_in_one_call(self, store: Store) -> None:
        letter = a_dead_letter()
        await store.add_dead_letters([letter, replace(letter, reason="another")])
        assert list(await store.dead_letters(None, 10)) == [letter]

    async def test_letters_are_found_by_their_ids(self, store: Store) -> None:
        letters = [a_dead_letter() for _ in range(3)]
        await store.add_dead_letters(letters)
        wanted = {letters[0].id, letters[2].id, DeadLetterId(an_id())}
        result = await store.dead_letters_by_id(wanted)
        assert sorted(letter.id for letter in result) == [letters[0].id, letters[2].id]
        assert list(await store.dead_letters_by_id([])) == []

    async def test_exhumed_letters_are_gone(self, store: Store) -> None:
        kept, gone = a_dead_letter(), a_dead_letter()
        await store.add_dead_letters([kept, gone])
        assert await store.delete_dead_letters([gone.id, DeadLetterId(an_id())]) == 1
        assert list(await store.dead_letters(None, 10)) == [kept]
        assert await store.delete_dead_letters([gone.id]) == 0
        assert await store.delete_dead_letters([]) == 0

    async def test_letters_are_pruned_when_the_keep_of_failures_is_over(self, store: Store) -> None:
        old, kept = a_dead_letter(at=NOW - 2 * DAY), a_dead_letter(at=NOW - DAY)
        await store.add_dead_letters([old, kept])
        await store.prune(finished_before=NOW, failed_before=NOW - DAY, limit=10)
        assert list(await store.dead_letters(None, 10)) == [kept]
