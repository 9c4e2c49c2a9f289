from hypothesis import given
from hypothesis import strategies as st

from onbeat.transports.kafka.ledger import Ledger


def handed_out(ledger, partition, offsets):
    return [ledger.hand_out(partition, offset) for offset in offsets]


def test_the_position_follows_what_is_done_without_a_gap():
    ledger = Ledger()
    ledger.assign([0])
    receipts = handed_out(ledger, 0, range(10, 15))
    assert ledger.news() == {0: 10}
    ledger.finish(receipts[:2])
    assert ledger.news() == {0: 12}
    assert ledger.news() == {}
    ledger.finish(receipts[3:])
    assert ledger.news() == {}
    ledger.finish(receipts[2:3])
    assert ledger.news() == {0: 15}


def test_offsets_may_have_holes():
    ledger = Ledger()
    ledger.assign([0])
    receipts = handed_out(ledger, 0, [3, 7, 100])
    ledger.finish(receipts[:1])
    assert ledger.news() == {0: 7}
    ledger.finish(receipts)
    assert ledger.news() == {0: 101}


def test_nothing_is_told_of_a_partition_before_its_first_message():
    ledger = Ledger()
    ledger.assign([0, 1])
    assert ledger.news() == {}


def test_receipts_of_an_earlier_turn_are_void():
    ledger = Ledger()
    ledger.assign([0])
    (void,) = handed_out(ledger, 0, [5])
    ledger.revoke([0])
    assert not ledger.holds(void)
    assert ledger.hand_out(0, 6) is None
    ledger.assign([0])
    (fresh,) = handed_out(ledger, 0, [5])
    ledger.finish([void])
    assert ledger.holds(fresh)
    assert ledger.outstanding() == 1


def test_receipts_of_another_ledger_are_void():
    one, other = Ledger(), Ledger()
    one.assign([0])
    other.assign([0])
    (void,) = handed_out(one, 0, [5])
    (fresh,) = handed_out(other, 0, [5])
    other.finish([void])
    assert other.holds(fresh)


def test_what_kafka_was_not_told_is_news_again():
    ledger = Ledger()
    ledger.assign([0, 1])
    ledger.finish(handed_out(ledger, 0, [0]) + handed_out(ledger, 1, [0]))
    assert ledger.news([1]) == {1: 1}
    assert ledger.news() == {0: 1}
    ledger.not_told([0, 7])
    assert ledger.news() == {0: 1}


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60), st.randoms())
def test_no_position_is_ever_past_something_open(steps, chance):
    ledger = Ledger()
    ledger.assign(range(3))
    ends = [0, 0, 0]
    held = []
    done = set()
    for partition, hand_out in steps:
        if hand_out or not held:
            held.append(ledger.hand_out(partition, ends[partition]))
            ends[partition] += 1
        else:
            receipt = held.pop(chance.randrange(len(held)))
            ledger.finish([receipt])
            done.add((receipt.partition, receipt.offset))
        for number, position in ledger.news().items():
            assert all((number, offset) in done for offset in range(position))
            assert (number, position) not in done
        assert ledger.outstanding() == len(held)
    ledger.finish(held)
    ledger.not_told(range(3))
    assert ledger.news() == {number: end for number, end in enumerate(ends) if end}
