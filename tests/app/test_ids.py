"""Ids of jobs: UUIDv7 that rise, whoever asks and however many are asked for."""

import uuid
from itertools import pairwise

from onbeat.app.system import LOW_BITS, SystemRandomness, uuid_texts


def test_ids_rise_over_calls_of_any_size() -> None:
    chance = SystemRandomness()
    ids = [id for count in (1, 0, 3, 1, 5_000) * 50 for id in chance.ids(count)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(id).version for id in ids} == {7}
    assert {uuid.UUID(id).variant for id in ids} == {uuid.RFC_4122}


def test_ids_rise_past_the_end_of_their_last_digits() -> None:
    ids = uuid_texts((7 << 48) + LOW_BITS - 2, 5)
    assert ids == sorted(set(ids))
    assert [number_of(id) for id in ids[:2]] == [LOW_BITS - 2, LOW_BITS - 1]
    assert number_of(ids[-1]) == 1


def test_a_fork_counts_on_from_a_number_of_its_own() -> None:
    chance = SystemRandomness()
    numbers = []
    for _ in range(50):
        numbers += [number_of(*chance.ids(1))]
        chance.reseed()
    assert all(after != before + 1 for before, after in pairwise(numbers))


def number_of(id: str) -> int:
    return int(id[-12:], 16)
