"""Reads `add_job` and `scheduled_job` of a Python module for APScheduler 3, without running it."""

import ast
from collections.abc import Mapping
from typing import Any, Final

from onbeat.cli.imports.apscheduler_triggers import FIELDS, read_trigger
from onbeat.cli.imports.celery_entries import call_of, is_json
from onbeat.cli.imports.cron_values import BadField
from onbeat.cli.imports.literals import Literals, NotLiteral, called, constants, parsed, walk
from onbeat.cli.imports.records import ImportOptions, ImportResult
from onbeat.cli.imports.zone_names import has_changes

TRIGGERS: Final = {
    "CronTrigger": "cron",
    "IntervalTrigger": "interval",
    "DateTrigger": "date",
    "CalendarIntervalTrigger": "calendarinterval",
}
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "cron": ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second",
             "start_date", "end_date", "timezone", "jitter"),
    "interval": ("weeks", "days", "hours", "minutes", "seconds", "start_date", "end_date",
                 "timezone", "jitter"),
    "date": ("run_date", "timezone"),
    "calendarinterval": (),
}  # fmt: skip
ADD_PLACES: Final = ("func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time",
                     "coalesce", "max_instances", "next_run_time", "jobstore", "executor",
                     "replace_existing")  # fmt: skip
DECORATOR_PLACES: Final = tuple(
    name for name in ADD_PLACES if name not in {"func", "replace_existing"}
)
Parts = dict[str, ast.AST]


def read_apscheduler(text: str, options: ImportOptions) -> ImportResult:
    return SchedulerReader(parsed(text), options).read()


class SchedulerReader:
    def __init__(self, tree: ast.Module, options: ImportOptions) -> None:
        self.tree = tree
        self.literals = Literals(constants(tree))
        self.result = ImportResult()
        self.machine = self.zone = options.zone

    def read(self) -> ImportResult:
        nodes = list(walk(self.tree))
        for node in nodes:
            if isinstance(node, ast.Call) and called(node).endswith("Scheduler"):
                self.read_scheduler(node)
        for node in nodes:
            if isinstance(node, ast.Call) and called(node) == "add_job":
                self.read_call(node, ADD_PLACES, None)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for one in node.decorator_list:
                    if isinstance(one, ast.Call) and called(one) == "scheduled_job":
                        self.read_call(one, DECORATOR_PLACES, node.name)
        self.tell_habits()
        return self.result

    def read_scheduler(self, node: ast.Call) -> None:
        for one in node.keywords:
            if one.arg == "timezone":
                try:
                    self.zone = str(self.literals.value(one.value))
                except NotLiteral as error:
                    self.lose("timezone", str(error), "give --tz ZONE", error.line)
            elif one.arg == "job_defaults":
                self.lose(
                    "job_defaults", "defaults of all jobs", "write them at each schedule",
                    one.value.lineno,
                )  # fmt: skip

    def lose(self, feature: str, source: str, remedy: str, line: int) -> None:
        self.result.lose(feature[:60], source, remedy, line=line)

    def read_call(self, node: ast.Call, places: tuple[str, ...], function: str | None) -> None:
        try:
            parts, rule_fields = self.parts_of(node, places)
            task = function or self.name_of(parts.pop("func", None), node)
            trigger = parts.pop("trigger", None)
            own = trigger if isinstance(trigger, ast.Call) else None
            kind, given = self.trigger_of(trigger, rule_fields)
            options = {name: self.literals.value(one) for name, one in parts.items()}
            zone = self.zone if own is None else self.zone_of_object(given, node.lineno)
            body, rule = read_trigger(kind, given, zone)
        except NotLiteral as error:
            self.lose("add_job", f"{error}: only running it would tell", "a literal", error.line)
            return
        except BadField as error:
            self.lose("trigger", str(error), "mend it, or write the schedule", node.lineno)
            return
        name = options.get("id") or options.get("name") or task
        key = self.result.key_for(str(name))
        body |= self.body_of(options, task, key, node.lineno)
        self.result.add(key, body, node.lineno, rule)

    def parts_of(self, node: ast.Call, places: tuple[str, ...]) -> tuple[Parts, Parts]:
        """The arguments of the call, and those that it passes on to its trigger."""
        if any(one.arg is None for one in node.keywords) or len(node.args) > len(places):
            raise NotLiteral(node)
        parts: Parts = {name: one for name, one in zip(places, node.args)}  # noqa: B905, C416
        parts |= {str(one.arg): one.value for one in node.keywords}
        own = {name: one for name, one in parts.items() if name in ADD_PLACES}
        return own, {name: one for name, one in parts.items() if name not in ADD_PLACES}

    def name_of(self, node: ast.AST | None, call: ast.Call) -> str:
        """The name of the function: `close` of `books.close`, and of `"shop.books:close"`."""
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name
            case ast.Constant(value=str() as text) if text:
                return text.replace(":", ".")
            case _:
                raise NotLiteral(node or call)

    def trigger_of(self, node: ast.AST | None, passed: Parts) -> tuple[str, dict[str, Any]]:
        if isinstance(node, ast.Call):
            return self.trigger_object(node)
        kind = "date" if node is None else str(self.literals.value(node))
        unknown = sorted(set(passed) - FIELDS)
        if unknown:
            raise BadField(f"add_job has no {unknown[0][:40]}")
        return kind, {name: self.literals.value(one) for name, one in passed.items()}

    def trigger_object(self, node: ast.Call) -> tuple[str, dict[str, Any]]:
        given = self.literals.keywords(node)
        if called(node) == "from_crontab" and node.args:
            return "cron", given | {"crontab": self.literals.value(node.args[0])}
        kind = TRIGGERS.get(called(node))
        if kind is None:
            raise BadField(f"{called(node)[:40]} is not known; write one rule")
        places = PLACES[kind]
        if len(node.args) > len(places):
            raise NotLiteral(node)
        return kind, given | {
            name: self.literals.value(one)
            for name, one in zip(places, node.args)  # noqa: B905
        }

    def zone_of_object(self, given: Mapping[str, Any], line: int) -> str | None:
        """An object made by the program knows no scheduler: its zone is that of the machine."""
        if given.get("timezone") is None and self.zone != self.machine:
            self.result.differ(
                "timezone", f"a trigger object has the machine's zone, not {self.zone}",
                f"times are in {self.machine or 'UTC'}", "its timezone, or --tz ZONE", line=line,
            )  # fmt: skip
        return self.machine

    def body_of(self, options: Mapping[str, Any], task: str, key: str, line: int) -> dict[str, Any]:
        args, kwargs = options.get("args"), options.get("kwargs")
        if not is_json([args, kwargs]):
            self.result.lose("args", "arguments without a form in JSON", "give them as JSON",
                             line=line, key=key)  # fmt: skip
            args = kwargs = None
        if "next_run_time" in options:
            self.result.lose(
                "next_run_time", "sets the first run, or none", "schedule pause, or starts_at",
                line=line, key=key,
            )  # fmt: skip
        for name in ("jobstore", "executor"):
            if options.get(name) is not None:
                self.result.lose(name, f"names its {name}", "a queue, for jobs of their own",
                                 line=line, key=key)  # fmt: skip
        instances = options.get("max_instances", 1)
        if isinstance(instances, int) and instances > 1:
            self.result.lose(
                "max_instances", f"{instances} runs at once", "a limit of the queue", line=line,
                key=key, onbeat="any number at once",
            )  # fmt: skip
        return {
            "name": options.get("name") or None,
            "target": call_of(task, args, kwargs),
            "overlap": "skip" if instances == 1 else None,
            **late_of(options),
        }

    def tell_habits(self) -> None:
        if not self.result.schedules:
            return
        if any(has_changes(one.body.get("timezone")) for one in self.result.schedules):
            self.result.differ_once(
                "changed clocks", "a time in a gap runs as far after it",
                "fixed times in a gap run at its end; rules with * leave it out",
                "an RRULE, with dst_gap",
            )  # fmt: skip
        if self.zone is None:
            self.result.differ_once(
                "time zone", "times are those of the machine", "times are in UTC",
                "give --tz ZONE",
            )  # fmt: skip
        self.result.differ_once(
            "misfire_grace_time", "1 s by default; what is later is left out",
            "up to 1 min late is on time; what is later runs once", "grace, with catch_up: none",
        )  # fmt: skip
        self.result.differ_once(
            "exception", "is logged, and the run is over", "is tried again by the retry policy",
            "retry: {attempts_max: 1}",
        )  # fmt: skip


def late_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What becomes of late runs, where the job says so."""
    body: dict[str, Any] = {}
    grace = options.get("misfire_grace_time")
    if isinstance(grace, int) and grace > 0:
        body |= {"grace": f"{grace}s", "catch_up": "none"}
    elif options.get("coalesce") is False:
        body["catch_up"] = "all"
    return body
