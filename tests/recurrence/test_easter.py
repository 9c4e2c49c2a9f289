"""BYEASTER: days counted from Easter Sunday."""

from datetime import UTC, date, datetime, timedelta

import pytest
from dateutil.easter import easter as easter_of
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import easter, rrule
from onbeat.recurrence.easter import OFFSET_MAX, OFFSET_MIN, easter_index
from recurrence.strategies import starts

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
OTHER_PARTS = ["", "BYMONTH=3,5", "BYDAY=SU,TH", "BYMONTHDAY=1,5,22", "BYHOUR=9,10", "BYSETPOS=-1"]


def test_easter_of_every_year_is_that_of_dateutil() -> None:
    wanted = [(easter_of(year) - date(year, 1, 1)).days for year in range(1, 10_000)]
    assert [easter_index(year) for year in range(1, 10_000)] == wanted


@settings(max_examples=60)
@given(
    st.sampled_from(["YEARLY", "YEARLY", "MONTHLY", "WEEKLY", "DAILY"]),
    st.integers(1, 4),
    st.lists(st.integers(OFFSET_MIN, OFFSET_MAX), min_size=1, max_size=3, unique=True),
    st.sampled_from(OTHER_PARTS),
    starts,
)
def test_dateutil_agrees_with_any_frequency(
    freq: str, interval: int, offsets: list[int], other: str, start: datetime
) -> None:
    # Of the first week it leaves out what comes before DTSTART before it counts positions.
    if freq == "WEEKLY" and ("BYSETPOS" in other or "BYMONTHDAY" in other):
        other = ""
    days = ",".join(map(str, offsets))
    text = f"FREQ={freq};INTERVAL={interval};BYEASTER={days}" + (f";{other}" if other else "")
    end = start + timedelta(4_000 if freq == "YEARLY" else 1_200)
    try:
        value = rrule(f"DTSTART:{start:%Y%m%dT%H%M%S}Z\nRRULE:{text}")
    except BadRecurrence:
        # It never fires, which dateutil finds out by a search up to the year 9999.
        return
    wanted = [at.replace(tzinfo=UTC) for at in rrulestr(text, dtstart=start).between(start, end)]
    assert value.between(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)) == wanted


@pytest.mark.parametrize("offset", [OFFSET_MIN, OFFSET_MAX])
def test_the_farthest_days_lie_in_the_year_of_every_easter(offset: int) -> None:
    value = rrule(f"DTSTART:15830101T000000Z\nRRULE:FREQ=YEARLY;BYEASTER={offset}")
    days = value.take(2_000, after=datetime(1583, 1, 1, tzinfo=UTC) - timedelta(1))
    assert [at.year for at in days] == list(range(1583, 3583))
    over = offset + (1 if offset > 0 else -1)
    with pytest.raises(BadRecurrence, match="-80 to 250") as caught:
        rrule(f"FREQ=YEARLY;BYEASTER=0,{over}")
    assert caught.value.position == len("FREQ=YEARLY;BYEASTER=0,")


def test_the_builder_names_days_after_easter_at_a_local_time() -> None:
    value = easter(-2, 1, at="09:00", tz="Europe/Berlin")
    assert [f"{at:%m-%dT%H}" for at in value.take(3, NEW_YEAR)] == [
        "04-03T07",
        "04-06T07",
        "03-26T08",
    ]
    assert easter().take(1, NEW_YEAR) == [datetime(2026, 4, 5, tzinfo=UTC)]


def test_a_rare_easter_is_found_and_an_impossible_one_refused() -> None:
    value = rrule("DTSTART:20260101T000000Z\nRRULE:FREQ=YEARLY;BYEASTER=0;BYMONTH=3;BYMONTHDAY=22")
    assert value.after(NEW_YEAR) == datetime(2285, 3, 22, tzinfo=UTC)
    with pytest.raises(BadRecurrence, match="never"):
        rrule("FREQ=YEARLY;BYEASTER=0;BYMONTH=3;BYMONTHDAY=21")
