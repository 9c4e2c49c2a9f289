"""Windows less quiet times, as windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications.commands import hours_of
from notifications.hours import DAY, WEEK, minutes_of, open_hours
from notifications.people import Recipient, RefusedError, check_recipient
from receivers import Mails
from world import PAID, World

NIGHT, NOON = "22:00-07:00", "12:00-14:00"


@pytest.mark.parametrize(
    ("windows", "quiet", "left"),
    [
        ((), (NIGHT,), ("07:00-22:00",)),
        ((), (NOON,), ("00:00-12:00", "14:00-24:00")),
        ((), (NOON, NIGHT), ("07:00-12:00", "14:00-22:00")),
        ((), (NIGHT, "21:00-23:00", "06:30-07:00"), ("07:00-21:00",)),
        (("08:00-20:00",), (NOON,), ("08:00-12:00", "14:00-20:00")),
        (("08:00-20:00",), ("21:00-22:00",), ("08:00-20:00",)),
        (("20:00-02:00",), (NIGHT,), ("20:00-22:00",)),
        (("23:30-00:30",), ("23:45-00:15",), ("00:15-00:30", "23:30-23:45")),
        (("MON-FRI 08:00-20:00",), (NOON,), None),
        (("FRI 22:00-06:00",), ("SAT 03:00-24:00",), ("SAT 00:00-03:00", "FRI 22:00-24:00")),
        (("SUN 23:00-02:00",), ("MON 01:00-24:00",), ("MON 00:00-01:00", "SUN 23:00-24:00")),
        (("08:00-20:00",), ("SAT-SUN 00:00-24:00",), ("MON,TUE,WED,THU,FRI 08:00-20:00",)),
        (("FRI-MON 10:00-11:00",), ("sat,sun 10:30-11:00",), None),
        ((NIGHT, NOON), (), (NIGHT, NOON)),
    ],
)
def test_quiet_times_are_taken_from_the_windows(
    windows: tuple[str, ...], quiet: tuple[str, ...], left: tuple[str, ...] | None
) -> None:
    found = hours_of(windows, quiet)
    check_recipient(Recipient(id="ada", name="Ada", hours=found))
    if left is not None:
        assert found == left
    wanted = set[int]().union(*map(minutes_of, windows or ["00:00-24:00"]))
    assert set[int]().union(*map(minutes_of, found)) == wanted.difference(*map(minutes_of, quiet))


@pytest.mark.parametrize(
    ("windows", "quiet", "why"),
    [
        ((), ("00:00-24:00",), "quiet: it leaves no time"),
        ((), ("22:00-10:00", "09:00-23:00"), "quiet: it leaves no time"),
        ((), ("09:00-09:00",), "quiet: it leaves no time"),
        (("12:30-13:00",), (NOON,), "quiet: it leaves no time"),
        ((), ("24:00-07:00",), "quiet: give hours such as 22:00-07:00"),
        ((), ("22:60-07:00",), "quiet: give hours such as 22:00-07:00"),
        ((), ("22:00-24:01",), "quiet: give hours such as 22:00-07:00"),
        ((), ("XYZ 22:00-07:00",), "quiet: give hours such as 22:00-07:00"),
        (("often",), (NOON,), "window: give such as MON-FRI 08:00-20:00"),
        ((), (NOON,) * 11, "quiet: give at most 10"),
        (("08:00-20:00",) * 11, (NOON,), "window: give at most 10"),
    ],
)
def test_times_that_leave_nothing_or_cannot_be_read_are_refused(
    windows: tuple[str, ...], quiet: tuple[str, ...], why: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        hours_of(windows, quiet)
    assert str(refused.value).startswith(why)


days = st.sampled_from(["", "MON ", "SAT-SUN ", "FRI-MON ", "TUE,THU "])
clocks = st.integers(0, DAY - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
times = st.builds(lambda day, begin, end: f"{day}{begin}-{end}", days, clocks, clocks)


@given(st.lists(times, max_size=3), st.lists(times, min_size=1, max_size=3))
def test_what_is_written_is_the_intersection(windows: list[str], quiet: list[str]) -> None:
    added = [minutes_of(time) for time in windows]
    taken = [minutes_of(time) for time in quiet]
    found = set[int]().union(*map(minutes_of, open_hours(added, taken)))
    for minute in range(WEEK):
        wanted = not added or any(minute in one for one in added)
        assert (minute in found) == (wanted and not any(minute in one for one in taken))


def test_nothing_is_sent_in_any_of_two_quiet_times(sqlite: World, mails: Mails) -> None:
    """Their complements were added to each other, which is the whole day."""
    sqlite.topic()
    sqlite.recipient("ada", "mail", hours=hours_of((), (NOON, NIGHT)))
    program = sqlite.program(mails.port)
    with program.beat.testing(at="2026-11-23T23:30Z") as trial:
        program.beat.events.publish(PAID, {}, id="night")
        trial.drain()
        assert mails.to == []
        trial.advance_to("2026-11-24T13:00Z")
        assert mails.to == ["ada"]
        program.beat.events.publish(PAID, {}, id="noon")
        trial.drain()
        assert mails.to == ["ada"]
        trial.advance_to("2026-11-24T14:00Z")
    assert mails.to == ["ada", "ada"]
