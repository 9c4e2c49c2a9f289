"""The examples of RFC 5545 3.8.5.3, and RFC 7529's SKIP, with the dates they list."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from onbeat.recurrence import rrule

NEW_YORK = "DTSTART;TZID=America/New_York:"
BEFORE = datetime(1990, 1, 1, tzinfo=UTC)


def days(text: str, count: int) -> list[str]:
    """Local dates as the RFC writes them: month and day, a year where it changes."""
    value = rrule(text)
    zone = ZoneInfo(value.tz)
    return [f"{at.astimezone(zone):%Y-%m-%d}" for at in value.take(count, after=BEFORE)]


def dates(year: int, text: str) -> list[str]:
    candidates = []
    for word in text.split():
        if word.endswith(":"):
            year = int(word[:-1])
        else:
            candidates.append(f"{year}-{word}")
    return candidates


EXAMPLES = [
    ("19970902T090000", "FREQ=DAILY;COUNT=10",
     dates(1997, "09-02 09-03 09-04 09-05 09-06 09-07 09-08 09-09 09-10 09-11")),
    ("19970902T090000", "FREQ=DAILY;INTERVAL=2", dates(1997, "09-02 09-04 09-06 09-08")),
    ("19970902T090000", "FREQ=DAILY;INTERVAL=10;COUNT=5", dates(1997, "09-02 09-12 09-22 10-02 10-12")),
    ("19970902T090000", "FREQ=WEEKLY;COUNT=10",
     dates(1997, "09-02 09-09 09-16 09-23 09-30 10-07 10-14 10-21 10-28 11-04")),
    ("19970902T090000", "FREQ=WEEKLY;INTERVAL=2;WKST=SU", dates(1997, "09-02 09-16 09-30 10-14 10-28 11-11")),
    ("19970902T090000", "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH",
     dates(1997, "09-02 09-04 09-09 09-11 09-16 09-18 09-23 09-25 09-30 10-02")),
    ("19970901T090000", "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
     dates(1997, "09-01 09-03 09-05 09-15 09-17 09-19 09-29 10-01 10-03 10-13 10-15 10-17 10-27"
                 " 10-29 10-31 11-10 11-12 11-14 11-24 11-26 11-28 12-08 12-10 12-12 12-22")),
    ("19970902T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
     dates(1997, "09-02 09-04 09-16 09-18 09-30 10-02 10-14 10-16")),
    ("19970905T090000", "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
     dates(1997, "09-05 10-03 11-07 12-05 1998: 01-02 02-06 03-06 04-03 05-01 06-05")),
    ("19970907T090000", "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
     dates(1997, "09-07 09-28 11-02 11-30 1998: 01-04 01-25 03-01 03-29 05-03 05-31")),
    ("19970922T090000", "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
     dates(1997, "09-22 10-20 11-17 12-22 1998: 01-19 02-16")),
    ("19970928T090000", "FREQ=MONTHLY;BYMONTHDAY=-3", dates(1997, "09-28 10-29 11-28 12-29 1998: 01-29 02-26")),
    ("19970902T090000", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
     dates(1997, "09-02 09-15 10-02 10-15 11-02 11-15 12-02 12-15 1998: 01-02 01-15")),
    ("19970930T090000", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
     dates(1997, "09-30 10-01 10-31 11-01 11-30 12-01 12-31 1998: 01-01 01-31 02-01")),
    ("19970910T090000", "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
     dates(1997, "09-10 09-11 09-12 09-13 09-14 09-15 1999: 03-10 03-11 03-12 03-13")),
    ("19970902T090000", "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
     dates(1997, "09-02 09-09 09-16 09-23 09-30 11-04 11-11 11-18 11-25")),
    ("19970610T090000", "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
     dates(1997, "06-10 07-10 1998: 06-10 07-10 1999: 06-10 07-10 2000: 06-10 07-10 2001: 06-10 07-10")),
    ("19970310T090000", "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
     dates(1997, "03-10 1999: 01-10 02-10 03-10 2001: 01-10 02-10 03-10 2003: 01-10 02-10 03-10")),
    ("19970101T090000", "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
     dates(1997, "01-01 04-10 07-19 2000: 01-01 04-09 07-18 2003: 01-01 04-10 07-19 2006: 01-01")),
    ("19970519T090000", "FREQ=YEARLY;BYDAY=20MO", dates(1997, "05-19 1998: 05-18 1999: 05-17")),
    ("19970512T090000", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", dates(1997, "05-12 1998: 05-11 1999: 05-17")),
    ("19970313T090000", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
     dates(1997, "03-13 03-20 03-27 1998: 03-05 03-12 03-19 03-26 1999: 03-04 03-11 03-18 03-25")),
    ("19970605T090000", "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
     dates(1997, "06-05 06-12 06-19 06-26 07-03 07-10 07-17 07-24 07-31 08-07 08-14 08-21 08-28 1998: 06-04")),
    ("19970902T090000", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
     dates(1998, "02-13 03-13 11-13 1999: 08-13 2000: 10-13")),
    ("19970913T090000", "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
     dates(1997, "09-13 10-11 11-08 12-13 1998: 01-10 02-07 03-07 04-11 05-09 06-13")),
    ("19961105T090000", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
     dates(1996, "11-05 2000: 11-07 2004: 11-02")),
    ("19970904T090000", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", dates(1997, "09-04 10-07 11-06")),
    ("19970929T090000", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
     dates(1997, "09-29 10-30 11-27 12-30 1998: 01-29 02-26 03-30")),
    ("19970805T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", dates(1997, "08-05 08-10 08-19 08-24")),
    ("19970805T090000", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", dates(1997, "08-05 08-17 08-19 08-31")),
    ("20070115T090000", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", dates(2007, "01-15 01-30 02-15 03-15 03-30")),
    # RFC 7529, 4.1 and the cases beside it.
    ("20140131T090000", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=OMIT;COUNT=3", dates(2014, "01-31 03-31 05-31")),
    ("20140131T090000", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=BACKWARD;COUNT=4",
     dates(2014, "01-31 02-28 03-31 04-30")),
    ("20140131T090000", "RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=FORWARD;COUNT=4",
     dates(2014, "01-31 03-01 03-31 05-01")),
    ("20120229T090000", "RSCALE=GREGORIAN;FREQ=YEARLY;SKIP=FORWARD;COUNT=4",
     dates(2012, "02-29 2013: 03-01 2014: 03-01 2015: 03-01")),
    ("20160229T090000", "RSCALE=GREGORIAN;FREQ=YEARLY;SKIP=BACKWARD;COUNT=4",
     dates(2016, "02-29 2017: 02-28 2018: 02-28 2019: 02-28")),
    ("20150131T090000", "RSCALE=GREGORIAN;FREQ=MONTHLY;BYMONTHDAY=1,31;SKIP=FORWARD;COUNT=6",
     dates(2015, "01-31 02-01 03-01 03-31 04-01 05-01")),
]  # fmt: skip


@pytest.mark.parametrize(("start", "rule", "expected"), EXAMPLES)
def test_an_example_gives_the_dates_it_lists(start: str, rule: str, expected: list[str]) -> None:
    assert days(f"{NEW_YORK}{start}\nRRULE:{rule}", len(expected)) == expected


def test_the_wall_time_stays_over_the_change_of_clocks() -> None:
    value = rrule(f"{NEW_YORK}19970902T090000\nRRULE:FREQ=DAILY;UNTIL=19971224T000000Z")
    candidate = value.take(1000, after=BEFORE)
    assert len(candidate) == 113
    assert (candidate[0].hour, candidate[-1].hour) == (13, 14)


def test_hours_of_a_day_and_minutes_of_an_hour() -> None:
    value = rrule(f"{NEW_YORK}19970902T090000\nRRULE:FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z")
    assert [at.hour for at in value.take(9, after=BEFORE)] == [13, 16, 19]
    value = rrule(f"{NEW_YORK}19970902T090000\nRRULE:FREQ=MINUTELY;INTERVAL=90;COUNT=4")
    assert [f"{at:%H:%M}" for at in value.take(9, after=BEFORE)] == [
        "13:00",
        "14:30",
        "16:00",
        "17:30",
    ]


def test_every_20_minutes_of_the_day_two_ways() -> None:
    daily = rrule(
        f"{NEW_YORK}19970902T090000\n"
        "RRULE:FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40"
    )
    minutely = rrule(
        f"{NEW_YORK}19970902T090000\nRRULE:FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16"
    )
    assert daily.take(500, after=BEFORE) == minutely.take(500, after=BEFORE)


def test_a_date_left_out_and_a_date_put_in() -> None:
    value = rrule(
        "DTSTART:20250101T090000Z\r\nRRULE:FREQ=WEEKLY;COU\r\n NT=3\r\n"
        "RDATE:20250103T120000Z\r\nEXDATE:20250108T090000Z"
    )
    assert [f"{at:%m-%dT%H}" for at in value.take(9, after=BEFORE)] == [
        "01-01T09",
        "01-03T12",
        "01-15T09",
    ]
