"""Reads CronJobs of Kubernetes (batch/v1): a stream of YAML documents, or a List.

Times mean what robfig/cron v3 makes of them, with the zone of `timeZone`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import click
import yaml

from onbeat.cli.imports.cron_values import (
    HOUR,
    MINUTE,
    MONTH,
    MONTH_DAY,
    BadField,
    FieldForm,
    from_monday,
)
from onbeat.cli.imports.documents import is_list, is_object, object_of
from onbeat.cli.imports.records import (
    COMMANDS,
    CommandLine,
    ImportOptions,
    ImportResult,
    UnreadableSource,
    target_of_line,
)
from onbeat.cli.imports.spans import go_span
from onbeat.cli.imports.wall_rule import DayChoice, ElapsedRule, WallRule
from onbeat.cli.yaml_files import TOO_DEEP, Values
from onbeat.model.limits import ATTEMPTS_MAX
from onbeat.recurrence.cron_text import ALIASES
from onbeat.wire.values import span_text

GO_WEEKDAY: Final = FieldForm(
    "day of week", 0, 6,
    {name: day for day, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
    open_step=True,
)  # fmt: skip
GO_FIELDS: Final = tuple(form._replace(open_step=True) for form in (MINUTE, HOUR, MONTH_DAY, MONTH))
OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
BACKOFF_DEFAULT: Final = 6
SPEC_FIELDS: Final = frozenset(
    {"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend",
     "jobTemplate", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"}
)  # fmt: skip
TOP_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
META_FIELDS: Final = frozenset(
    {"name", "creationTimestamp", "uid", "resourceVersion", "generation", "managedFields"}
)
"""The others that the server adds are not named: they are nobody's wish."""

JOB_FIELDS: Final = frozenset({"backoffLimit", "activeDeadlineSeconds", "template"})
POD_FIELDS: Final = frozenset({"containers", "restartPolicy"})
REFERENCE: Final = re.compile(r"\$?\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
CONTAINER_FIELDS: Final = frozenset({"name", "command", "args", "env", "workingDir"})


class Manifest(NamedTuple):
    """A value of the stream with its node, which knows its lines."""

    value: Any
    node: yaml.Node

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    def part(self, name: str) -> "Manifest":
        """The value of a field; an empty mapping where there is none."""
        if is_object(self.value) and isinstance(self.node, yaml.MappingNode):
            for key, node in self.node.value:
                if key.value == name and name in self.value:
                    return Manifest(self.value[name], node)
        return Manifest({}, self.node)

    def items(self) -> "Iterator[Manifest]":
        if is_list(self.value) and isinstance(self.node, yaml.SequenceNode):
            for value, node in zip(self.value, self.node.value, strict=True):
                yield Manifest(value, node)

    def get(self, name: str) -> Any:
        return object_of(self.value).get(name)

    def lines(self) -> dict[str, int]:
        """The line of each field."""
        if not isinstance(self.node, yaml.MappingNode):
            return {}
        return {key.value: int(key.start_mark.line) + 1 for key, _ in self.node.value}

    def line_of(self, name: str) -> int:
        return self.lines().get(name, self.line)


def read_kubernetes(text: str, options: ImportOptions) -> ImportResult:
    result = ImportResult()
    for manifest in manifests(text):
        if manifest.get("kind") == "List":
            for item in manifest.part("items").items():
                read_manifest(item, options, result)
        else:
            read_manifest(manifest, options, result)
    if result.schedules:
        result.differ_once(
            "missed run", "runs the latest one within startingDeadlineSeconds",
            "runs the latest one, however late", "grace, with catch_up: none",
        )  # fmt: skip
    return result


def manifests(text: str) -> Iterator[Manifest]:
    values = Values("it")
    try:
        loader: Any = yaml.SafeLoader(text)
        while loader.check_node():
            node = loader.get_node()
            yield Manifest(values.value_of(node, 0), node)
    except (yaml.YAMLError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or TOO_DEEP
        raise UnreadableSource(f"not YAML: {problem}", mark.line + 1 if mark else None) from None
    except click.ClickException as error:
        raise UnreadableSource(error.message) from None


def read_manifest(manifest: Manifest, options: ImportOptions, result: ImportResult) -> None:
    if manifest.value is None:
        return
    if manifest.get("kind") != "CronJob":
        kind = str(manifest.get("kind") or "a document without a kind")[:60]
        result.lose(kind, "an object of its own", "only a CronJob is a schedule",
                    line=manifest.line)  # fmt: skip
        return
    spec = manifest.part("spec")
    name = str(manifest.part("metadata").get("name") or "cronjob")
    key = result.key_for(name)
    text, zone = str(spec.get("schedule") or ""), spec.get("timeZone")
    try:
        times, rule = read_times(text, str(zone) if zone else options.zone)
    except BadField as error:
        result.lose("schedule", str(error), "mend it", line=spec.line_of("schedule"), key=key)
        return
    job = spec.part("jobTemplate").part("spec")
    target = read_target(job, options, result, key)
    if target is None:
        return
    body = {
        **times,
        "target": target,
        "overlap": overlap_of(spec),
        "status": "paused" if spec.get("suspend") is True else None,
        "retry": {"attempts_max": attempts_of(job)},
        "timeout": seconds_of(job.get("activeDeadlineSeconds")),
        **late_of(spec),
    }
    result.add(key, body, manifest.line, rule)
    tell_rest(spec, job, result, key)
    tell_fields(manifest, TOP_FIELDS, "none is known", result, key)
    template = spec.part("jobTemplate")
    for part in (manifest, template, job.part("template")):
        tell_fields(
            part.part("metadata"), META_FIELDS, "a label of the schedule, by hand", result, key
        )
    if options.task is None:
        result.differ_once(*COMMANDS)
    if not zone and options.zone is None:
        result.differ_once(
            "time zone", "without timeZone that of the controller", "UTC", "give --tz ZONE"
        )


def read_times(text: str, zone: str | None) -> tuple[dict[str, Any], WallRule | ElapsedRule]:
    """The fields of the rule, and when robfig/cron fires. Raises `BadField`."""
    if text.startswith("@every "):
        span = go_span(text.removeprefix("@every ").strip())
        if span is None:
            raise BadField(f"{text[:40]} is no span such as @every 1h30m")
        return {"every": span_text(span)}, ElapsedRule(span=span)
    words = ALIASES.get(text, text).split()
    if len(words) != 5:
        raise BadField(f"{text[:40]!r} has {len(words)} fields, and needs 5")
    values = [form.read(word) for form, word in zip(GO_FIELDS, words, strict=False)]
    weekdays = GO_WEEKDAY.read(words[4])
    either = not (is_star(words[2]) or is_star(words[4]))
    rule = WallRule(
        days=DayChoice(
            months=values[3], month_days=values[2], weekdays=from_monday(weekdays), either=either
        ),
        minutes=tuple(sorted(values[0])),
        hours=tuple(sorted(values[1])),
        zone=zone or "UTC",
    )
    body: dict[str, Any] = {"cron": cron_text(text, words, either=either), "timezone": zone}
    if zone and not (words[0].startswith("*") or words[1].startswith("*")):
        body |= {"dst_gap": "skip", "dst_fold": "both"}
    return body, rule


def is_star(word: str) -> bool:
    """Whether the field leaves the day open. `*/2` does not, unlike in Vixie cron."""
    return any(item in {"*", "?", "*/1", "?/1"} for item in word.split(","))


def cron_text(text: str, words: Sequence[str], *, either: bool) -> str:
    """The text, with `*/2` of a day written as a range where it would mean something else."""
    if text.startswith("@") or not either:
        return text
    month_day, weekday = words[2].replace("*", "1-31"), words[4].replace("*", "0-6")
    return " ".join((*words[:2], month_day, words[3], weekday))


def overlap_of(spec: Manifest) -> str | None:
    overlap = OVERLAPS.get(str(spec.get("concurrencyPolicy") or "Allow"), "allow")
    return None if overlap == "allow" else overlap


def attempts_of(job: Manifest) -> int:
    limit = job.get("backoffLimit")
    return min((limit if is_count(limit) else BACKOFF_DEFAULT) + 1, ATTEMPTS_MAX)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def seconds_of(value: object) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**9:
        return None
    return span_text(timedelta(seconds=value))


def late_of(spec: Manifest) -> dict[str, str]:
    """How late a run may start."""
    grace = seconds_of(spec.get("startingDeadlineSeconds"))
    return {} if grace is None else {"grace": grace, "catch_up": "none"}


def read_target(
    job: Manifest, options: ImportOptions, result: ImportResult, key: str
) -> dict[str, Any] | None:
    """None where the image has the command, and no task is given."""
    pod = job.part("template").part("spec")
    containers = list(pod.part("containers").items())
    container = containers[0] if containers else Manifest({}, pod.node)
    env = container.part("env")
    given: dict[str, str] = {}
    for one in env.items():
        if "value" in one.value:
            given[str(one.get("name"))] = expanded(str(one.get("value")), given)
    words = tuple(
        expanded(str(word), given)
        for field in ("command", "args")
        for word in container.get(field) or ()
    )
    tell_container(container, containers, result, key)
    for one in env.items():
        if "value" not in one.value:
            result.lose("env", f"{one.get('name')} comes from elsewhere",
                        "set it for the worker", line=one.line, key=key)  # fmt: skip
    if not words:
        result.lose(
            "command", "the image's own command", "name it in the target", line=container.line,
            key=key,
            onbeat="left out" if options.task is None else "calls the task without a command",
        )  # fmt: skip
        if options.task is None:
            return None
    folder = container.get("workingDir")
    return target_of_line(CommandLine(words, given, str(folder) if folder else None), options.task)


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with `$(NAME)` replaced, as Kubernetes does: `$$(NAME)` stays as `$(NAME)`, and a
    name that is not set as it is.
    """

    def value_of(match: re.Match[str]) -> str:
        return match[0][1:] if match[0].startswith("$$") else known.get(match[1], match[0])

    return REFERENCE.sub(value_of, text)


def tell_container(
    container: Manifest, containers: list[Manifest], result: ImportResult, key: str
) -> None:
    for other in containers[1:]:
        result.lose("container", f"a second container, {other.get('name')}",
                    "a task of its own", line=other.line, key=key)  # fmt: skip
    tell_fields(container, CONTAINER_FIELDS, "a worker with what the container has", result, key)


def tell_rest(spec: Manifest, job: Manifest, result: ImportResult, key: str) -> None:
    pod = job.part("template").part("spec")
    tell_fields(spec, SPEC_FIELDS, "none is known", result, key)
    tell_fields(job, JOB_FIELDS, "retry and timeout of the schedule", result, key)
    tell_fields(pod, POD_FIELDS, "the deployment of the worker", result, key)
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        if spec.get(name) is not None:
            result.lose(name, f"keeps {spec.get(name)} jobs", "settings of retention",
                        line=spec.line_of(name), key=key,
                        onbeat="keeps ended jobs for a span")  # fmt: skip


def tell_fields(
    part: Manifest, known: frozenset[str], remedy: str, result: ImportResult, key: str
) -> None:
    lines = part.lines()
    for name, shown in object_of(part.value).items():
        if name not in known:
            text = f"{name}: {shown}" if isinstance(shown, str | int) else f"has {name}"
            line = lines.get(name, part.line)
            result.lose(name[:60], text[:80], remedy, line=line, key=key)
