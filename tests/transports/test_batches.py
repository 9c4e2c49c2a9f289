import pytest

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.transports.batches import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    BODY_BYTES_MAX,
    batches,
    check_size,
)


def envelope(size: int = 1) -> Envelope:
    return Envelope(id="1", body=bytes(size))


def test_nothing_makes_no_lot() -> None:
    assert list(batches([])) == []


def test_few_are_one_lot() -> None:
    few = [envelope()] * BATCH_MESSAGES
    assert list(batches(few)) == [few]


def test_many_are_several_lots_with_all_in_order() -> None:
    many = [Envelope(id=str(number), body=b"") for number in range(2 * BATCH_MESSAGES + 1)]
    parts = list(batches(many))
    assert [len(part) for part in parts] == [BATCH_MESSAGES, BATCH_MESSAGES, 1]
    assert [one for part in parts for one in part] == many


def test_large_ones_have_lots_of_their_own() -> None:
    parts = list(batches([envelope(), envelope(BATCH_BYTES), envelope(BATCH_BYTES), envelope()]))
    assert [len(part) for part in parts] == [1, 1, 1, 1]


def test_a_lot_stays_below_its_bytes() -> None:
    parts = list(batches([envelope(BATCH_BYTES // 4)] * 9))
    assert [len(part) for part in parts] == [4, 4, 1]


def test_what_is_just_small_enough_is_taken() -> None:
    check_size(envelope(BODY_BYTES_MAX))
    with pytest.raises(TooLarge, match="16,777,216 bytes"):
        check_size(envelope(BODY_BYTES_MAX + 1))
