import pytest

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.transports.lots import BODY_BYTES_MAX, LOT_BYTES, LOT_MESSAGES, check, lots


def envelope(size: int = 1) -> Envelope:
    return Envelope(id="1", body=bytes(size))


def test_nothing_makes_no_lot():
    assert list(lots([])) == []


def test_few_are_one_lot():
    few = [envelope()] * LOT_MESSAGES
    assert list(lots(few)) == [few]


def test_many_are_several_lots_with_all_in_order():
    many = [Envelope(id=str(number), body=b"") for number in range(2 * LOT_MESSAGES + 1)]
    parts = list(lots(many))
    assert [len(part) for part in parts] == [LOT_MESSAGES, LOT_MESSAGES, 1]
    assert [one for part in parts for one in part] == many


def test_large_ones_have_lots_of_their_own():
    parts = list(lots([envelope(), envelope(LOT_BYTES), envelope(LOT_BYTES), envelope()]))
    assert [len(part) for part in parts] == [1, 1, 1, 1]


def test_a_lot_stays_below_its_bytes():
    parts = list(lots([envelope(LOT_BYTES // 4)] * 9))
    assert [len(part) for part in parts] == [4, 4, 1]


def test_what_is_just_small_enough_is_taken():
    check(envelope(BODY_BYTES_MAX))
    with pytest.raises(TooLarge, match="16,777,216 bytes"):
        check(envelope(BODY_BYTES_MAX + 1))
