"""Rules as hypothesis makes them up: legal by RFC 5545, and likely to fire."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

CODES = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]

ZONES = [
    "UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia",
    "America/Santiago", "America/Havana", "Asia/Beirut", "Africa/Cairo", "Europe/Dublin",
    "Africa/Casablanca", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham",
    "Asia/Tehran", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Kwajalein", "Asia/Gaza",
    "Antarctica/Troll", "America/Nuuk", "Europe/Moscow", "Asia/Pyongyang", "America/Caracas",
    "Pacific/Kiritimati", "Africa/Monrovia", "Europe/London", "Australia/Sydney",
    "Pacific/Auckland", "America/Mexico_City", "Asia/Amman", "Europe/Istanbul",
]  # fmt: skip

# Walls, to be read in whatever zone is drawn.
FIRST_START = datetime(2009, 1, 1)  # noqa: DTZ001  a wall
FIRST_UNTIL = datetime(2011, 1, 1)  # noqa: DTZ001  a wall


def some(low: int, high: int, most: int = 3, *, signed: bool = False) -> Any:
    values = st.integers(low, high)
    if signed:
        values = values | st.integers(-high, -low)
    return st.lists(values, min_size=1, max_size=most, unique=True)


def joined(values: list[int]) -> str:
    return ",".join(map(str, values))


@st.composite
def by_day(draw: Callable[..., Any], numbers: list[int]) -> str:
    codes = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=4, unique=True))
    if not numbers or draw(st.booleans()):
        return ",".join(codes)
    return ",".join(f"{draw(st.sampled_from(['', *numbers]))}{code}" for code in codes)


DAY_PARTS = {
    "YEARLY": ["BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"],
    "MONTHLY": ["BYMONTH", "BYMONTHDAY", "BYDAY"],
    "WEEKLY": ["BYMONTH", "BYDAY"],
    "DAILY": ["BYMONTH", "BYMONTHDAY", "BYDAY"],
    "HOURLY": ["BYMONTH", "BYMONTHDAY", "BYDAY", "BYYEARDAY"],
    "MINUTELY": ["BYMONTHDAY", "BYDAY"],
    "SECONDLY": ["BYDAY"],
}
INTERVALS = {"YEARLY": 4, "MONTHLY": 18, "WEEKLY": 60, "DAILY": 400}


@st.composite
def long_rules(
    draw: Callable[..., Any],
    freqs: tuple[str, ...] = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY"),
    *,
    bound: bool = True,
) -> str:
    """Rules of days and longer, without DTSTART."""
    freq = draw(st.sampled_from(list(freqs)))
    rule = {"FREQ": freq}
    if draw(st.booleans()):
        rule["INTERVAL"] = draw(st.integers(2, 4) | st.integers(2, INTERVALS[freq]))
    names = draw(st.lists(st.sampled_from(DAY_PARTS[freq]), max_size=2, unique=True))
    for name in names:
        rule[name] = draw(day_part(name, freq, names))
    for name, high in (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 60)):
        if draw(st.integers(0, 3)) == 0:
            rule[name] = joined(draw(some(0, high)))
    if any(name.startswith("BY") for name in rule) and draw(st.integers(0, 2)) == 0:
        rule["BYSETPOS"] = joined(draw(some(1, 6, signed=True)))
    if draw(st.integers(0, 3)) == 0:
        rule["WKST"] = draw(st.sampled_from(CODES))
    if bound:
        draw(bounds(rule))
    return ";".join(f"{name}={value}" for name, value in rule.items())


@st.composite
def bounds(draw: Callable[..., Any], rule: dict[str, Any]) -> None:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        rule["COUNT"] = draw(st.integers(1, 40))
    elif kind == 1:
        day = FIRST_UNTIL + timedelta(seconds=draw(st.integers(0, 86400 * 1500)))
        rule["UNTIL"] = day.strftime("%Y%m%dT%H%M%SZ")


@st.composite
def day_part(draw: Callable[..., Any], name: str, freq: str, names: list[str]) -> str:
    match name:
        case "BYMONTH":
            return joined(draw(some(1, 12)))
        case "BYWEEKNO":
            return joined(draw(some(1, 53, signed=True)))
        case "BYYEARDAY":
            return joined(draw(some(1, 366, signed=True)))
        case "BYMONTHDAY":
            return joined(draw(some(1, 31, signed=True)))
        case _:
            numbers = []
            if freq == "MONTHLY" or (freq == "YEARLY" and "BYMONTH" in names):
                numbers = [1, 2, -1, 5, -5]
            elif freq == "YEARLY" and "BYWEEKNO" not in names:
                numbers = [1, 20, -1, 53]
            return draw(by_day(numbers))


@st.composite
def short_rules(
    draw: Callable[..., Any], freqs: tuple[str, str, str] = ("HOURLY", "MINUTELY", "SECONDLY")
) -> str:
    freq = draw(st.sampled_from(list(freqs)))
    interval = draw(st.integers(1, {"HOURLY": 30, "MINUTELY": 2000, "SECONDLY": 90_000}[freq]))
    rule = {"FREQ": freq, "INTERVAL": interval}
    if freq == "SECONDLY" and interval < 300:
        rule["INTERVAL"] = interval + 600
    for name in draw(st.lists(st.sampled_from(DAY_PARTS[freq]), max_size=1)):
        rule[name] = draw(day_part(name, freq, []))
    for name, high in (("BYHOUR", 23), ("BYMINUTE", 59), ("BYSECOND", 60)):
        if draw(st.integers(0, 3)) == 0 and not (freq == "SECONDLY" and name == "BYSECOND"):
            rule[name] = joined(draw(some(0, high, 4)))
    expands = {"BYMINUTE", "BYSECOND"} if freq == "HOURLY" else {"BYSECOND"}
    if expands & set(rule) and draw(st.booleans()):
        rule["BYSETPOS"] = joined(draw(some(1, 3, signed=True)))
    if draw(st.integers(0, 5)) == 0:
        rule["COUNT"] = draw(st.integers(1, 40))
    return ";".join(f"{name}={value}" for name, value in rule.items())


starts = st.builds(
    lambda day, hour, minute, second: (
        FIRST_START + timedelta(days=day, hours=hour, minutes=minute, seconds=second)
    ),
    st.integers(0, 1200),
    st.integers(0, 23),
    st.sampled_from([0, 15, 30, 45]),
    st.sampled_from([0, 0, 30]),
)
zones = st.sampled_from(ZONES)
