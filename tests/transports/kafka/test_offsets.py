from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onbeat.transports.kafka.offsets import OffsetTracker, Receipt


def handed_out(ledger: OffsetTracker, partition: int, offsets: list[int] | range) -> list[Receipt]:
    return [ledger.hand_out(partition, offset) for offset in offsets]


def test_the_position_follows_what_is_done_without_a_gap() -> None:
    offsets = OffsetTracker()
    offsets.assign([0])
    receipts = handed_out(offsets, 0, range(10, 15))
    assert offsets.unreported_positions() == {0: 10}
    offsets.finish(receipts[:2])
    assert offsets.unreported_positions() == {0: 12}
    assert offsets.unreported_positions() == {}
    offsets.finish(receipts[3:])
    assert offsets.unreported_positions() == {}
    offsets.finish(receipts[2:3])
    assert offsets.unreported_positions() == {0: 15}


def test_offsets_may_have_holes() -> None:
    offsets = OffsetTracker()
    offsets.assign([0])
    receipts = handed_out(offsets, 0, [3, 7, 100])
    offsets.finish(receipts[:1])
    assert offsets.unreported_positions() == {0: 7}
    offsets.finish(receipts)
    assert offsets.unreported_positions() == {0: 101}


def test_nothing_is_told_of_a_partition_before_its_first_message() -> None:
    offsets = OffsetTracker()
    offsets.assign([0, 1])
    assert offsets.unreported_positions() == {}


def test_receipts_of_an_earlier_turn_are_void() -> None:
    offsets = OffsetTracker()
    offsets.assign([0])
    (void,) = handed_out(offsets, 0, [5])
    offsets.revoke([0])
    assert not offsets.holds(void)
    assert offsets.hand_out(0, 6) is None
    offsets.assign([0])
    (fresh,) = handed_out(offsets, 0, [5])
    offsets.finish([void])
    assert offsets.holds(fresh)
    assert offsets.outstanding() == 1


def test_receipts_of_another_ledger_are_void() -> None:
    one, other = OffsetTracker(), OffsetTracker()
    one.assign([0])
    other.assign([0])
    (void,) = handed_out(one, 0, [5])
    (fresh,) = handed_out(other, 0, [5])
    other.finish([void])
    assert other.holds(fresh)


def test_what_kafka_was_not_told_is_news_again() -> None:
    offsets = OffsetTracker()
    offsets.assign([0, 1])
    offsets.finish(handed_out(offsets, 0, [0]) + handed_out(offsets, 1, [0]))
    assert offsets.unreported_positions([1]) == {1: 1}
    assert offsets.unreported_positions() == {0: 1}
    offsets.forget_report([0, 7])
    assert offsets.unreported_positions() == {0: 1}


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60), st.randoms())
def test_no_position_is_ever_past_something_open(
    steps: list[tuple[int, bool]], chance: Any
) -> None:
    offsets = OffsetTracker()
    offsets.assign(range(3))
    ends = [0, 0, 0]
    held: list[Any] = []
    done = set()
    for partition, hand_out in steps:
        if hand_out or not held:
            held.append(offsets.hand_out(partition, ends[partition]))
            ends[partition] += 1
        else:
            receipt = held.pop(chance.randrange(len(held)))
            offsets.finish([receipt])
            done.add((receipt.partition, receipt.offset))
        for number, position in offsets.unreported_positions().items():
            assert all((number, offset) in done for offset in range(position))
            assert (number, position) not in done
        assert offsets.outstanding() == len(held)
    offsets.finish(held)
    offsets.forget_report(range(3))
    assert offsets.unreported_positions() == {number: end for number, end in enumerate(ends) if end}
