"""Reads a crontab: that of a user, or with a column for the user that of the system.

Its meaning is that of Debian's cron, a Vixie cron, with the CRON_TZ of cronie (crontab(5)).
"""

import re
from shlex import quote
from typing import Any, Final, NamedTuple

from onbeat.cli.imports.cron_values import (
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    WEEKDAY,
    BadField,
    from_monday,
)
from onbeat.cli.imports.records import (
    COMMANDS,
    CommandLine,
    ImportOptions,
    ImportResult,
    target_of_line,
)
from onbeat.cli.imports.wall_rule import DayChoice, WallRule
from onbeat.cli.imports.zone_names import is_zone
from onbeat.recurrence.cron_text import ALIASES
from onbeat.wire.commands import LOADING

LINE_CHARS_MAX: Final = 10_000
ENV_CHARS_MAX: Final = 2_000
"""Of all variables together: every line below takes them along."""

SHELL: Final = "/bin/sh"
NAME_CHARS: Final = 100
VARIABLE: Final = re.compile(r"""(?P<quote>["']?)(?P<name>[A-Za-z_]\w*)(?P=quote)\s*=\s*(.*)""")
RUNS_OTHERS: Final = {"cd", "test", "[", "if", "env", "flock", "nice", "timeout", "sh", "bash"}


class CronLine(NamedTuple):
    number: int
    times: tuple[str, ...]
    user: str | None
    command: str


class CrontabReader:
    def __init__(self, options: ImportOptions) -> None:
        self.options = options
        self.result = ImportResult()
        self.env: dict[str, str] = {}
        self.shell = SHELL
        self.zone = options.zone

    def read(self, text: str) -> ImportResult:
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if stripped and not stripped.startswith("#"):
                self.read_line(number, stripped)
        if self.result.schedules:
            self.tell_habits()
        return self.result

    def read_line(self, number: int, line: str) -> None:
        if len(line) > LINE_CHARS_MAX:
            self.lose_line(number, f"a line of more than {LINE_CHARS_MAX} characters", "shorten it")
        elif match := VARIABLE.fullmatch(line):
            self.set_variable(number, match["name"], unquoted(match[3].strip()))
        else:
            self.read_command(number, line)

    def set_variable(self, number: int, name: str, value: str) -> None:
        if name == "CRON_TZ":
            if is_zone(value):
                self.zone = value
            else:
                self.lose_line(number, f"CRON_TZ={value}, no zone that is known here", "name one")
        elif name == "SHELL":
            self.shell = value or SHELL
        elif len(name) > NAME_CHARS:
            self.lose_line(number, "a variable with a very long name", "shorten it")
        elif name == "MAILTO":
            self.tell_mail(number, value)
        elif sum(map(len, self.env.values())) + len(value) > ENV_CHARS_MAX:
            self.lose_line(number, f"variables of more than {ENV_CHARS_MAX} characters", "fewer")
        else:
            self.env[name] = value
            if name == "TZ":
                self.result.differ(
                    "TZ", "the zone of commands below, not of their times",
                    "passes it to the command", "write CRON_TZ, or give --tz, for the times",
                    line=number,
                )  # fmt: skip

    def tell_mail(self, number: int, address: str) -> None:
        if address:
            self.result.lose(
                "MAILTO", f"mails what commands print to {address}",
                "alert on onbeat.job.failed: see the guide of alerts", line=number,
                onbeat="keeps it with the job",
            )  # fmt: skip

    def read_command(self, number: int, line: str) -> None:
        split = self.split_line(number, line)
        if split is None:
            return
        if split.times == ("@reboot",):
            self.result.lose(
                "@reboot", f"runs at the start of the machine: {split.command[:60]}",
                "a unit of systemd, or a hook on_start", line=number,
            )  # fmt: skip
            return
        try:
            body, rule = self.read_times(split.times)
        except BadField as error:
            self.lose_line(number, str(error), hint_of(split.times))
            return
        key = self.result.key_for(name_of_command(split.command))
        command, has_input, text = input_of(split.command)
        target = self.target_of(command, (text or "\n") if has_input else None)
        self.result.add(key, {**body, "target": target, "retry": {"attempts_max": 1}}, number, rule)
        if split.user is not None:
            self.result.lose(
                "user", f"runs as {split.user}", "a worker that runs as this user, and its queue",
                line=number, key=key, onbeat="runs as the user of the worker",
            )  # fmt: skip

    def target_of(self, command: str, text: str | None) -> dict[str, Any]:
        """Its shell sets what decides which code runs: a command's environment may not."""
        task, env = self.options.task, dict(self.env)
        if task is None:
            names = [name for name in env if LOADING.fullmatch(name)]
            settings = [f"export {name}={quote(env.pop(name))}\n" for name in names]
            command = "".join([*settings, command])
        return target_of_line(CommandLine((self.shell, "-c", command), env, None, text), task)

    def split_line(self, number: int, line: str) -> CronLine | None:
        count = 1 if line.startswith("@") else 5
        user = 1 if self.options.system else 0
        words = line.split(None, count + user)
        if len(words) <= count + user:
            what = "times, a user and a command" if user else "times and a command"
            self.lose_line(number, f"a line without {what}", "complete it")
            return None
        return CronLine(number, tuple(words[:count]), words[count] if user else None, words[-1])

    def read_times(self, times: tuple[str, ...]) -> tuple[dict[str, str | None], WallRule]:
        text = " ".join(times)
        if text.startswith("@"):
            if text.lower() not in ALIASES:
                raise BadField(f"{text[:30]} is no name of a time")
            rule = wall_rule(ALIASES[text.lower()].split(), self.zone or "UTC")
        else:
            rule = wall_rule(list(times), self.zone or "UTC")
        return {"cron": text, "timezone": self.zone}, rule

    def lose_line(self, number: int, problem: str, remedy: str) -> None:
        self.result.lose("line", problem, remedy, line=number)

    def tell_habits(self) -> None:
        if self.zone is None:
            self.result.differ_once(
                "time zone", "times are those of the machine", "times are in UTC",
                "give --tz ZONE",
            )  # fmt: skip
        if self.options.task is None:
            self.result.differ_once(*COMMANDS)
        self.result.differ_once(
            "missed run", "left out while the machine is off", "runs the latest one, late",
            "catch_up: none",
        )  # fmt: skip


def wall_rule(times: list[str], zone: str) -> WallRule:
    """The rule of Vixie cron: either day is enough unless a day field begins with `*`.

    A minute or hour that begins with `*` follows the clock as it is; fixed times in a gap run at
    its end, and once in a fold. Raises `BadField`.
    """
    minute, hour, month_day, month, weekday = times
    follows = minute.startswith("*") or hour.startswith("*")
    return WallRule(
        days=DayChoice(
            months=MONTH.read(month),
            month_days=MONTH_DAY.read(month_day),
            weekdays=from_monday(WEEKDAY.read(weekday)),
            either=not (month_day.startswith("*") or weekday.startswith("*")),
        ),
        hours=tuple(sorted(HOUR.read(hour))),
        minutes=tuple(sorted(MINUTE.read(minute))),
        zone=zone,
        gap="skip" if follows else "end",
        fold="both" if follows else "first",
    )


def hint_of(times: tuple[str, ...]) -> str:
    if any("~" in word for word in times):
        return "write H(0-29) for a random value: 0~29"
    return "mend the line"


def unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def input_of(text: str) -> tuple[str, bool, str | None]:
    """The command, and what stands after its first `%`: its input, a line for each `%`."""
    command, *rest = re.split(r"(?<!\\)%", text)
    lines = [one.replace("\\%", "%") for one in (command, *rest)]
    return lines[0].rstrip(), bool(rest), "\n".join(lines[1:]) + "\n" if rest else None


def name_of_command(command: str) -> str:
    """The name of the program, if the first word is one that says something."""
    first = command.split(None, 1)[0].rstrip(";")
    name = first.rpartition("/")[2].partition(".")[0]
    return command if not name or name in RUNS_OTHERS or "=" in first else name


def read_crontab(text: str, options: ImportOptions) -> ImportResult:
    """Every line is a schedule, a setting of those below it, or a named difference."""
    return CrontabReader(options).read(text)
