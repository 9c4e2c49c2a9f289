"""Reads the schedule expressions of AWS: `cron(0 12 * * ? *)` and `rate(5 minutes)`."""

import re

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.cron_text import (
    CRON_TEXT_MAX,
    DAY,
    DAYS,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    Chosen,
    CronParts,
    CronReader,
    CronText,
    Field,
    cron_parts,
    read_cron,
)

AWS_WEEKDAY = Field(WEEKDAY.name, 1, 7, DAYS, 1)
AWS_YEAR = Field("year", 1970, 2199)
AWS_FIELDS = (MINUTE, HOUR, DAY, MONTH, AWS_WEEKDAY, AWS_YEAR)

AWS_CRON = re.compile(r"\s*cron\((?P<fields>[^()]*)\)\s*", re.IGNORECASE)
AWS_RATE = re.compile(r"\s*rate\((?P<span>[^()]*)\)\s*", re.IGNORECASE)
RATE = re.compile(
    r"\s*(?P<number>\d{1,9})\s+(?P<unit>minute|hour|day)s?\s*", re.IGNORECASE | re.ASCII
)


def is_aws(text: str) -> bool:
    return bool(re.match(r"\s*(cron|rate)\(", text, re.IGNORECASE))


def is_rate(text: str) -> bool:
    return bool(re.match(r"\s*rate\(", text, re.IGNORECASE))


def read_rate(text: str) -> str:
    """The span of `rate(…)`, such as `5m`. Raises BadRecurrence with the place of the error."""
    whole = AWS_RATE.fullmatch(text)
    if not whole:
        raise BadRecurrence("write rate(5 minutes)", text[:100], 0)
    match = RATE.fullmatch(whole["span"])
    if not match or int(match["number"]) == 0:
        raise BadRecurrence(
            f"{whole['span'][:20]!r} is no rate; write a number and minutes, hours or days",
            text[:100],
            min(whole.start("span"), 100),
        )
    return f"{int(match['number'])}{match['unit'][0].lower()}"


def read_any_cron(text: str, key: str = "") -> CronText:
    """A cron expression as in Unix, or `cron(…)` as in AWS. Raises BadRecurrence."""
    return read_aws_cron(text) if is_aws(text) else read_cron(text, key)


def read_aws_cron(text: str) -> CronText:
    """Six fields, year last. Weekdays count from Sunday = 1, and one of the day fields is `?`."""
    if len(text) > CRON_TEXT_MAX:
        raise BadRecurrence(f"longer than {CRON_TEXT_MAX:,} characters", text[:100], CRON_TEXT_MAX)
    whole = AWS_CRON.fullmatch(text)
    if not whole:
        raise BadRecurrence("write cron(MINUTE HOUR DAY MONTH WEEKDAY YEAR)", text[:100], 0)
    shift = whole.start("fields")
    words = [(m[0].upper(), shift + m.start()) for m in re.finditer(r"\S+", whole["fields"])]
    canonical = " ".join(word for word, _ in words)
    reader = AwsReader(text, "")
    parts = reader.read_fields(words)
    return CronText(f"cron({canonical})", None, parts, tuple(reader.notes))


class AwsReader(CronReader):
    """Reads the fields between the brackets."""

    def read_fields(self, words: list[tuple[str, int]]) -> CronParts:
        if len(words) != len(AWS_FIELDS):
            self.refuse(
                f"{len(words)} fields; cron(…) has 6: minute hour day month weekday year",
                words[6][1] if len(words) > len(AWS_FIELDS) else self.text.index(")"),
            )
        day, weekday = words[2], words[4]
        if (day[0] == "?") == (weekday[0] == "?"):
            self.refuse("cron(…) has ? in exactly one of day of month and day of week", day[1])
        chosen = {
            field.name: self.read_field(field, word, at)
            for field, (word, at) in zip(AWS_FIELDS, words, strict=True)
        }
        # From Sunday = 1 to Sunday = 0.
        days = chosen[WEEKDAY.name]
        days.values = {number - 1 for number in days.values}
        return cron_parts(
            chosen, {field.name: word for field, (word, _) in zip(AWS_FIELDS, words, strict=True)}
        )

    def read_weekday_form(self, chosen: Chosen, item: str, at: int) -> bool:
        if item == "L":
            # The last day of the week.
            chosen.extra.add(AWS_WEEKDAY.high)
            return True
        return super().read_weekday_form(chosen, item, at)

    def weekday(self, text: str, at: int) -> int:
        return (self.value(AWS_WEEKDAY, text, at) + 5) % 7

    def hash_range(self, field: Field, match: re.Match[str], at: int) -> range:
        self.refuse(f"H does not go into {field.name} of cron(…)", at + match.start())
