"""What an import reads, and what it found: records that every source shares."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from onbeat.model.limits import FILE_SCHEDULES_MAX

KEY_CHARS: Final = 60
"""Of a key that is made from a name or a command; a number may follow."""


COMMANDS: Final = (
    "commands", "any program is run", "a worker runs those that it allows", "set commands.allow"
)  # fmt: skip
"""The difference of a source of commands."""


class SourceRule(Protocol):
    """When the source fires, computed without Onbeat's recurrences."""

    def take(self, count: int, after: datetime) -> list[datetime]: ...


class UnreadableSource(ValueError):
    """The file is not of the form that its source has. `line` counts from 1."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`zone` is that of rules for which the source uses its machine's own.

    Commands become calls of `task`, and without one they stay commands.
    """

    task: str | None = None
    system: bool = False
    zone: str | None = None


class ImportDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the source does in another way. `lost`: it could not be carried over."""

    feature: str
    source: str
    onbeat: str
    remedy: str
    line: int | None = None
    key: str | None = None
    lost: bool = False


class ImportedSchedule(msgspec.Struct, frozen=True):
    """A body of a schedule file, the line it came from, and when the source fires.

    Without a `rule` the source has no fixed times.
    """

    key: str
    body: dict[str, Any]
    line: int
    rule: SourceRule | None = None


class CommandLine(NamedTuple):
    """A command of the source: its words, environment, folder and input."""

    words: tuple[str, ...]
    env: Mapping[str, str] = {}
    folder: str | None = None
    input: str | None = None


def target_of_line(command: CommandLine, task: str | None) -> dict[str, Any]:
    """The target of a command: the command itself, or a call of `task` with what it needs."""
    given = {
        "command": list(command.words),
        "env": dict(command.env),
        "cwd": command.folder,
        "stdin": command.input,
    }
    target = {name: value for name, value in given.items() if value}
    return target if task is None else {"task": task, "kwargs": target}


class ImportResult:
    """The schedules and differences of one file, while it is read."""

    def __init__(self) -> None:
        self.schedules: list[ImportedSchedule] = []
        self.differences: list[ImportDifference] = []
        self.numbers: dict[str, int] = {}
        self.noted: set[str] = set()

    def key_for(self, name: str) -> str:
        """A key from the name, which no other schedule of this file has."""
        stem = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._")[:KEY_CHARS] or "schedule"
        key = stem
        while key in self.numbers:
            self.numbers[stem] += 1
            key = f"{stem}-{self.numbers[stem]}"
        self.numbers[key] = 1
        return key

    def add(
        self, key: str, body: Mapping[str, Any], line: int, rule: SourceRule | None = None
    ) -> None:
        """Raises `UnreadableSource` beyond the number of schedules that a file may have."""
        if len(self.schedules) == FILE_SCHEDULES_MAX:
            raise UnreadableSource(f"it has more than {FILE_SCHEDULES_MAX} schedules", line)
        given = {name: value for name, value in body.items() if value is not None}
        if given.get("name") == key:
            del given["name"]
        self.schedules.append(ImportedSchedule(key, given, line, rule))

    def differ(
        self,
        feature: str,
        source: str,
        onbeat: str,
        remedy: str,
        *,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        self.differences.append(
            ImportDifference(
                feature=feature, source=source, onbeat=onbeat, remedy=remedy, line=line, key=key
            )
        )

    def lose(
        self,
        feature: str,
        source: str,
        remedy: str,
        *,
        line: int | None = None,
        key: str | None = None,
        onbeat: str = "left out",
    ) -> None:
        """A difference that is not in the file that the import writes."""
        self.differences.append(
            ImportDifference(
                feature=feature,
                source=source,
                onbeat=onbeat,
                remedy=remedy,
                line=line,
                key=key,
                lost=True,
            )
        )

    def differ_once(self, feature: str, source: str, onbeat: str, remedy: str) -> None:
        """A difference of the whole file, however many schedules have it."""
        if feature not in self.noted:
            self.noted.add(feature)
            self.differ(feature, source, onbeat, remedy)


def first_line(values: Sequence[str]) -> str:
    """The values as one short text."""
    text = ", ".join(values)
    return text if len(text) <= 100 else f"{text[:97]}..."
