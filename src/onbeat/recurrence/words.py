"""Names and lists in English, of which descriptions consist."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NAMED_MAX = 8
"""Values that are listed one by one; longer lists are summarized by their count."""


def join_words(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ordinal(n: int) -> str:
    """`3rd`; from the end, `last` and `3rd last`."""
    if n == -1:
        return "last"
    size = abs(n)
    ending = "th" if 11 <= size % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(size % 10, "th")
    return f"{size}{ending}{' last' if n < 0 else ''}"


def spans_of(values: tuple[int, ...]) -> list[str]:
    """`0 to 5`, `every 15th`, or the values one by one."""
    if len(values) > 2:
        step = values[1] - values[0]
        if all(value == values[0] + index * step for index, value in enumerate(values)):
            by = "" if step == 1 else f" in steps of {step}"
            return [f"{values[0]} to {values[-1]}{by}"]
    return [str(value) for value in values]


def clock_words(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> str:
    ending = [f":{second:02}" if second else "" for second in seconds]
    if len(hours) * len(minutes) * len(seconds) <= NAMED_MAX:
        times = [f"{h:02}:{m:02}{end}" for h in hours for m in minutes for end in ending]
        return f"at {join_words(times)}"
    words = f"in hour {join_words(spans_of(hours))} at minute {join_words(spans_of(minutes))}"
    return words if seconds == (0,) else f"{words} at second {join_words(spans_of(seconds))}"


def by_day_words(n: int, weekday: int) -> str:
    return f"the {ordinal(n)} {WEEKDAYS[weekday]}" if n else WEEKDAYS[weekday]
