"""Reads `beat_schedule` of a Python module for Celery, without running it."""

import ast
from datetime import timedelta
from typing import Any, Final

from onbeat.cli.imports.celery_cron import ORDER, read_celery_cron
from onbeat.cli.imports.celery_entries import (
    add_interval,
    call_of,
    is_json,
    options_of,
    span_of,
    tell_habits,
)
from onbeat.cli.imports.celery_fixtures import read_fixtures
from onbeat.cli.imports.cron_values import BadField
from onbeat.cli.imports.documents import is_object
from onbeat.cli.imports.literals import Literals, NotLiteral, called, constants, parsed, walk
from onbeat.cli.imports.records import ImportOptions, ImportResult, SourceRule
from onbeat.cli.imports.zone_names import is_zone

SCHEDULES: Final = frozenset({"beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"})
ZONES: Final = frozenset({"timezone", "CELERY_TIMEZONE"})
FIELDS: Final = frozenset({"task", "schedule", "args", "kwargs", "options", "relative"})
WHY: Final = "only running it would tell"


def read_celery(text: str, options: ImportOptions) -> ImportResult:
    """A module, or the JSON of `dumpdata django_celery_beat`."""
    if text.lstrip()[:1] in {"[", "{"}:
        return read_fixtures(text, options)
    return BeatReader(parsed(text), options).read()


class BeatReader:
    def __init__(self, tree: ast.Module, options: ImportOptions) -> None:
        self.tree = tree
        self.literals = Literals(constants(tree))
        self.result = ImportResult()
        self.zone = options.zone

    def read(self) -> ImportResult:
        entries: list[tuple[ast.AST, ast.AST]] = []
        for node in walk(self.tree):
            for name, value in assigned(node):
                if name in ZONES:
                    self.set_zone(value)
                elif name in SCHEDULES:
                    entries += self.entries_of(value)
            entries += self.entry_by_index(node)
            if called(node) == "add_periodic_task":
                self.lose("add_periodic_task", node, "write it into beat_schedule")
        for name_node, entry in entries:
            self.read_entry(name_node, entry)
        tell_habits(self.result)
        return self.result

    def set_zone(self, node: ast.AST) -> None:
        try:
            zone = self.literals.value(node)
        except NotLiteral:
            zone = None
        if isinstance(zone, str) and is_zone(zone):
            self.zone = zone
        else:
            self.lose("timezone", node, "give --tz ZONE")

    def entries_of(self, node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
        if not isinstance(node, ast.Dict):
            self.lose("beat_schedule", node, "write it as a dict")
            return []
        found: list[tuple[ast.AST, ast.AST]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.lose("**", value, "write its entries out")
            else:
                found.append((key, value))
        return found

    def entry_by_index(self, node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
        """`app.conf.beat_schedule["name"] = {…}`."""
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
            return []
        target = node.targets[0]
        return [(target.slice, node.value)] if last_name(target.value) in SCHEDULES else []

    def lose(self, feature: str, node: ast.AST, remedy: str) -> None:
        shown = NotLiteral(node)
        self.result.lose(feature, f"{shown}: {WHY}", remedy, line=shown.line)

    def read_entry(self, name_node: ast.AST, node: ast.AST) -> None:
        line: int = getattr(name_node, "lineno", 1)
        try:
            name = str(self.literals.value(name_node))
            fields = self.fields_of(node)
            task = self.literals.value(fields["task"])
            values = {
                field: self.literals.value(fields[field])
                for field in ("args", "kwargs", "options", "relative")
                if field in fields
            }
            body, rule = self.read_rule(fields["schedule"])
        except NotLiteral as error:
            self.result.lose("entry", f"{error}: {WHY}", "write a literal", line=error.line)
            return
        except (BadField, KeyError) as error:
            problem = f"an entry without {error}" if isinstance(error, KeyError) else str(error)
            self.result.lose("entry", problem, "mend it", line=line)
            return
        key = self.result.key_for(name)
        if not is_json([values.get("args"), values.get("kwargs")]):
            self.result.lose("args", "arguments without a form in JSON", "give them as JSON",
                             line=line, key=key)  # fmt: skip
            values |= {"args": None, "kwargs": None}
        if values.get("relative"):
            self.tell_relative(line, key)
        for field in sorted(set(fields) - FIELDS):
            self.result.lose(field[:60], f"the entry has {field[:60]}", "none is known", line=line,
                             key=key)  # fmt: skip
        options = values.get("options")
        more = options_of(options, self.result, key, line) if is_object(options) else {}
        target = call_of(str(task), values.get("args"), values.get("kwargs"))
        self.result.add(key, {"name": name, **body, "target": target, **more}, line, rule)

    def fields_of(self, node: ast.AST) -> dict[str, ast.AST]:
        """The fields of an entry by name, not yet read."""
        if isinstance(node, ast.Call) and called(node) == "dict" and not node.args:
            return {str(one.arg): one.value for one in node.keywords}
        if not isinstance(node, ast.Dict):
            raise NotLiteral(node)
        return {
            str(self.literals.value(key)) if key else "**": value
            for key, value in zip(node.keys, node.values, strict=True)
        }

    def read_rule(self, node: ast.AST) -> tuple[dict[str, Any], SourceRule]:
        name = called(node)
        if isinstance(node, ast.Call) and name == "crontab":
            return read_celery_cron(self.arguments(node, ORDER), self.zone)
        if isinstance(node, ast.Call) and name == "schedule":
            given = self.arguments(node, ("run_every", "relative"))
            if given.get("relative"):
                self.tell_relative(node.lineno, None)
            return self.read_interval(given.get("run_every"))
        if name == "solar":
            raise BadField("solar(…): the sun is not a rule here; send an event, or write cron")
        return self.read_interval(self.literals.value(node))

    def read_interval(self, value: Any) -> tuple[dict[str, Any], SourceRule]:
        span: timedelta | None = span_of(value)
        made = None if span is None else add_interval(span)
        if made is None:
            raise BadField(f"{str(value)[:40]} is no interval")
        return made

    def arguments(self, node: ast.Call, order: tuple[str, ...]) -> dict[str, Any]:
        """By name; `nowfun` and `app` do not change the rule."""
        if len(node.args) > len(order):
            raise NotLiteral(node)
        by_place = {name: self.literals.value(one) for name, one in zip(order, node.args)}  # noqa: B905
        by_name = {
            str(one.arg): self.literals.value(one.value)
            for one in node.keywords
            if one.arg not in {"nowfun", "app"}
        }
        return by_place | by_name

    def tell_relative(self, line: int, key: str | None) -> None:
        self.result.lose(
            "relative", "rounds the interval to whole units of the clock", "write cron",
            line=line, key=key, onbeat="counts from the creation",
        )  # fmt: skip


def assigned(node: ast.AST) -> list[tuple[str, ast.AST]]:
    """Names and values that the node gives: an assignment, or `conf.update(…)`."""
    if isinstance(node, ast.Assign):
        return [(last_name(target), node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(last_name(node.target), node.value)]
    if isinstance(node, ast.Call) and called(node) in {"update", "Celery"}:
        return [(str(one.arg), one.value) for one in node.keywords]
    return []


def last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
