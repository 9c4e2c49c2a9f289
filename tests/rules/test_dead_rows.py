from onbeat.rules.dead_rows import DEAD_MIN, DeadRows, RowCounts


def test_a_small_table_is_worth_a_vacuum_at_its_minimum() -> None:
    rows = DeadRows()
    assert not rows.is_vacuum_due(RowCounts(DEAD_MIN - 1, 0), 0)
    assert rows.is_vacuum_due(RowCounts(DEAD_MIN, 0), 0)


def test_a_table_of_many_live_rows_waits_for_a_tenth_more() -> None:
    rows, live = DeadRows(), 10_000_000
    assert not rows.is_vacuum_due(RowCounts(DEAD_MIN + live // 10 - 1, live), 0)
    assert rows.is_vacuum_due(RowCounts(DEAD_MIN + live // 10, live), 0)


def test_what_somebody_still_sees_is_tried_again_once_it_has_doubled() -> None:
    rows = DeadRows()
    rows.note_vacuum(RowCounts(3 * DEAD_MIN, 0), 0, 0)
    assert not rows.is_vacuum_due(RowCounts(6 * DEAD_MIN - 1, 0), 1)
    assert rows.is_vacuum_due(RowCounts(6 * DEAD_MIN, 0), 1)
    # The server's own vacuum has removed it.
    assert not rows.is_vacuum_due(RowCounts(0, 0), 2)
    assert rows.is_vacuum_due(RowCounts(DEAD_MIN, 0), 3)


def test_a_long_vacuum_is_followed_by_a_longer_rest() -> None:
    rows = DeadRows()
    rows.note_vacuum(RowCounts(0, 0), 10, 12)
    assert not rows.is_vacuum_due(RowCounts(DEAD_MIN, 0), 51.9)
    assert rows.is_vacuum_due(RowCounts(DEAD_MIN, 0), 52)


def test_a_user_who_may_not_vacuum_does_not() -> None:
    assert not DeadRows().is_vacuum_due(RowCounts(9 * DEAD_MIN, 0, may_vacuum=False), 0)
