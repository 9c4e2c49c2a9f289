"""Options shared by several commands, and request bodies made from options."""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from onbeat.cli.exit_codes import BadRule
from onbeat.cli.option_types import BACKOFF, DST_FOLD, DST_GAP, KEEP, method, span, url
from onbeat.cli.times import read_instant, utc_text, zone_of
from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.model.job import JobSpec
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.schedule import ScheduleSpec
from onbeat.wire.conditions import window_fields

Value = TypeVar("Value")
Decorator = Callable[[Callable[..., Value]], Callable[..., Value]]

RULES: Final = ("rrule", "cron", "every", "at")
RETRY: Final = ("attempts_max", "backoff", "delay", "delay_max", "jitter", "lost_max")


def options(*added: Callable[..., Any]) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Combine options into one decorator, shown in this order."""

    def add(command: Callable[..., Value]) -> Callable[..., Value]:
        return functools.reduce(lambda made, option: option(made), reversed(added), command)

    return add


def field(*names: str, **settings: Any) -> Callable[..., Any]:
    """An option that is omitted from the body when it is not given."""
    return click.option(*names, default=None, **settings)


def limit_option(default: int = 50, *, most: int = PAGE_LIMIT_MAX) -> Callable[..., Any]:
    return click.option(
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help="How many at most.",
    )


page_option = click.option(
    "--page", type=click.IntRange(1), default=1, show_default=True, help="From 1."
)
cursor_option = field("--cursor", metavar="CURSOR", help="Go on where the page before ended.")

rule_options = options(
    field("--rrule", metavar="RULE", help="RFC 5545 rule, or @FILE with an iCalendar block."),
    field("--cron", metavar="FIELDS", help='Five to seven fields, e.g. "*/5 * * * *".'),
    field("--every", metavar="SPAN", help="A fixed span: 90s, 15m, PT1H."),
    field("--at", metavar="INSTANT", help="Once."),
    field(
        "--start", metavar="INSTANT", help="The first occurrence of an --every or a plain --rrule."
    ),
    field("--timezone", "--tz", metavar="ZONE", help="IANA zone of the rule, e.g. Europe/Berlin."),
    field(
        "--dst-gap",
        type=DST_GAP,
        metavar="HOW",
        help="Times that clocks jump over: shift, skip, end.",
    ),
    field(
        "--dst-fold", type=DST_FOLD, metavar="HOW", help="Times that come twice: first, last, both."
    ),
)

reaction_options = options(
    field("--on", metavar="TYPE", help="On events of this type; a * at the end is any rest."),
    field("--source", metavar="SOURCE", help="Only events of this source, as --on."),
    field("--if", "on_if", metavar="CEL", help="Only events of which this is true."),
    field("--by", metavar="CEL", help="The text by which events are gathered and cancelled."),
    field("--delay", type=span, metavar="SPAN", help="Run so long after the event."),
    field("--gather-for", type=span, metavar="SPAN", help="One job for the events of this span."),
    field("--gather-until", metavar="CRON", help="One job for the events until then."),
    field(
        "--gather-quiet", type=span, metavar="SPAN", help="Wait until no event came for so long."
    ),
    field(
        "--gather-keep",
        type=KEEP,
        metavar="WHICH",
        help="Of these: all, first, last.  [default: all]",
    ),
    field("--gather-most", type=int, metavar="N", help="At most so many.  [default: 1000]"),
    field("--gather-by", metavar="CEL", help="The text by which they are gathered, as --by."),
    field("--cancel-on", metavar="TYPE", help="End waiting jobs on events of this type."),
    field("--cancel-if", metavar="CEL", help="Only on those of which this is true."),
    field("--cancel-by", metavar="CEL", help="The text by which they end.  [default: --by]"),
)

target_options = options(
    field("--url", "--callback-url", "url", type=url, metavar="URL", help="Call this URL."),
    field("--method", type=method, metavar="METHOD", help="HTTP method.  [default: GET]"),
    field("--header", "headers", multiple=True, metavar="'K: V'", help="Repeat for several."),
    field("--body", metavar="TEXT", help="Body of the call, or @FILE."),
    field("--secret-file", metavar="FILE", help="Sign with the secrets in it, one a line."),
    field(
        "--success",
        multiple=True,
        metavar="STATUS",
        help="200, 3xx or any counts as success; repeat.  [default: 2xx]",
    ),
    field("--redirects", type=int, metavar="N", help="Follow so many redirects.  [default: 0]"),
    field(
        "--connect-timeout",
        type=span,
        metavar="SPAN",
        help="Longest wait for a connection, e.g. 5s.",
    ),
    field("--task", metavar="NAME", help="Run this task."),
    field("--args", metavar="JSON", help="Its positional arguments, e.g. '[7]'."),
    field("--kwargs", metavar="JSON", help="""Its named arguments, e.g. '{"language":"de"}'."""),
    click.option("--encrypted", is_flag=True, help="Encrypt its arguments at rest."),
    click.option(
        "--command", is_flag=True, help="Run a program on a worker: -- /PATH ARGUMENTS, at the end."
    ),
    field("--env", multiple=True, metavar="K=V", help="Its variable. Repeat for several."),
    field("--cwd", metavar="FOLDER", help="The folder in which it runs."),
    field("--stdin", metavar="TEXT", help="Its input, or @FILE."),
    click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM [ARGUMENT]...]"),
)

TARGET_OPTIONS: Final = (
    *("url", "method", "headers", "body", "secret_file"),
    *("success", "redirects", "connect_timeout"),
    *("task", "args", "kwargs", "encrypted"),
)

retry_options = options(
    field("--retry-attempts-max", type=int, metavar="N", help="Tries in all."),
    field("--retry-backoff", type=BACKOFF, metavar="HOW", help="exponential, linear, fixed."),
    field("--retry-delay", type=span, metavar="SPAN", help="Wait after the first failure."),
    field("--retry-delay-max", type=span, metavar="SPAN", help="Longest wait."),
    field("--retry-jitter/--no-retry-jitter", help="Wait a random part of the delay."),
    field("--retry-lost-max", type=int, metavar="N", help="Workers that may die under it."),
)

job_options = options(
    field("--queue", metavar="NAME", help="Queue of the job."),
    field("--priority", type=int, metavar="N", help="Smaller goes first.  [default: 0]"),
    field("--timeout", type=span, metavar="SPAN", help="An attempt may take this long."),
    field("--condition", metavar="TEXT", help="CEL that must be true for it to start, or JSON."),
    field(
        "--window",
        multiple=True,
        metavar="TEXT",
        help='When it may start: "MON-FRI 09:00-18:00 Europe/Berlin".',
    ),
    click.option("--sensitive", is_flag=True, default=None, help="Never show its payload again."),
    field("--label", "labels", multiple=True, metavar="K=V", help="Repeat for several."),
)


def given_options(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: values[name] for name in names if values.get(name) is not None}


def retry_body(values: Mapping[str, Any]) -> dict[str, Any]:
    retry = {name: values.get(f"retry_{name}") for name in RETRY}
    fields = {name: value for name, value in retry.items() if value is not None}
    return {"retry": fields} if fields else {}


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    return dict(pair_of(text, "=", "--label", "KEY=VALUE") for text in texts)


def condition_body(text: str) -> Any:
    """A CEL text; JSON, or @FILE, is the whole condition."""
    if text.lstrip().startswith(("{", "@")):
        return json_of(text, dict, "--condition", """'{"if": "now > job.run_at"}'""")
    return {"if": text}


def window_bodies(texts: Sequence[str]) -> list[dict[str, str]]:
    return [window_fields(text, "--window") for text in texts]


FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "after": list,
    "labels": labels_of,
    "condition": condition_body,
    "window": window_bodies,
}
"""How options that may be repeated stand in a body."""


def spec_body(values: Mapping[str, Any], spec: type[JobSpec | ScheduleSpec]) -> dict[str, Any]:
    """The options that are fields of the record, and `retry`; instants are read with their zone."""
    given = {
        name: values[name]
        for name in spec.__struct_fields__
        if values.get(name) not in {None, ()} and not name.endswith("_at")
    }
    for name, form in FORMS.items():
        if name in given:
            given[name] = form(given[name])
    return given | retry_body(values)


def target_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"target": …}` of the given kind, or nothing."""
    if values["command"]:
        refuse_beside("--command", values, *TARGET_OPTIONS)
        return {"target": command_body(values)}
    if values["argv"]:
        raise click.UsageError(
            f"unexpected {values['argv'][0]!r}; a task is named by --task, its arguments by --args,"
            " and a program and its own by --command"
        )
    for name in ("env", "cwd", "stdin"):
        if values.get(name):
            raise click.UsageError(f"--{name} is of a program; give --command with it")
    if values["url"] and values["task"]:
        raise click.UsageError("give --url or --task, not both")
    if values["url"]:
        refuse_beside("--url", values, "args", "kwargs", "encrypted")
        return {"target": {"http": http_body(values)}}
    refuse_beside(
        "--task" if values["task"] else "no --url",
        values,
        *("method", "headers", "body"),
        *("success", "redirects", "connect_timeout"),
    )
    if values["task"]:
        return {"target": task_body(values)}
    refuse_beside("no --task", values, "args", "kwargs", "encrypted")
    return {}


def refuse_beside(what: str, values: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if values.get(name):
            option = "header" if name == "headers" else name.replace("_", "-")
            raise click.UsageError(f"--{option} does not go with {what}")


def command_body(values: Mapping[str, Any]) -> dict[str, Any]:
    if not values["argv"]:
        raise click.UsageError("--command needs a program: end with -- /PATH/TO/PROGRAM ARGUMENTS")
    body: dict[str, Any] = {"command": list(values["argv"]), **given_options(values, "cwd")}
    if values.get("env"):
        body["env"] = dict(variable_of(text) for text in values["env"])
    if values.get("stdin") is not None:
        body["stdin"] = text_or_file(values["stdin"])
    return body


def variable_of(text: str) -> tuple[str, str]:
    """The value as it is, with its blanks."""
    name, _ = pair_of(text, "=", "--env", "NAME=VALUE")
    return name, text.partition("=")[2]


def http_body(values: Mapping[str, Any]) -> dict[str, Any]:
    body = given_options(values, "url", "method", "redirects", "connect_timeout")
    if values.get("success"):
        body["success"] = list(values["success"])
    if values.get("headers"):
        pairs = (pair_of(text, ":", "--header", "'Name: value'") for text in values["headers"])
        body["headers"] = dict(pairs)
    if values.get("body") is not None:
        body["body"] = text_or_file(values["body"])
    if values.get("secret_file"):
        body["secret"] = secrets_of(file_text(values["secret_file"]))
        if not body["secret"]:
            raise click.UsageError("--secret-file has no secret in it")
    return body


def secrets_of(text: str) -> str | list[str]:
    """One secret per line of a file; a single one is sent as text."""
    lines = text.split()
    return lines if len(lines) > 1 else text.strip()


def task_body(values: Mapping[str, Any]) -> dict[str, Any]:
    body = given_options(values, "task")
    for name, kind, form in (("args", list, "'[1, 2]'"), ("kwargs", dict, """'{"n": 1}'""")):
        if values.get(name) is not None:
            body[name] = json_of(values[name], kind, f"--{name}", form)
    if values["encrypted"]:
        body["encrypted"] = True
    return body


def json_of(text: str, kind: type, option: str, form: str) -> msgspec.Raw:
    """The JSON as typed, so that no number changes its form."""
    try:
        decoded = msgspec.json.decode(text_or_file(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"{option} is not JSON ({error}); write e.g. {form}") from None
    if not isinstance(decoded, kind):
        raise click.UsageError(f"{option} must be JSON like {form}")
    return msgspec.Raw(text_or_file(text).encode())


def pair_of(text: str, separator: str, option: str, form: str) -> tuple[str, str]:
    name, result, value = text.partition(separator)
    if not result or not name.strip():
        # The text may be a credential without its colon, so the error does not show it.
        raise click.UsageError(f"{option} must be {form}; one that was given has no {separator}")
    return name.strip(), value.strip()


def rule_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """The recurrence in the form of the API; at most one kind."""
    rules = given_options(values, *RULES)
    if len(rules) > 1:
        raise click.UsageError(f"give one of --rrule, --cron, --every and --at, not {len(rules)}")
    if values["gather_until"] is not None and not rules:
        return {}  # the zone is that of the gathering
    body = rules | given_options(values, "timezone", "dst_gap", "dst_fold")
    zone = zone_of(values["timezone"])
    if "at" in body:
        body["at"] = utc_text(read_instant(body["at"], "--at", zone))
    if values["start"]:
        body["start"] = utc_text(read_instant(values["start"], "--start", zone))
    if "rrule" in body:
        body["rrule"] = text_or_file(body["rrule"])
    check_rule(given_options(body, "rrule", "cron", "every"))
    return body


def check_rule(rule: Mapping[str, str]) -> None:
    """Raises `BadRule`. A zone and what is too costly are left to who computes the occurrences."""
    # Loaded here: most commands have no rule.
    from onbeat.recurrence import parse_recurrence  # noqa: PLC0415

    if not rule or not all(rule.values()):
        return
    try:
        parse_recurrence(rrule=rule.get("rrule"), cron=rule.get("cron"), every=rule.get("every"))
    except TooCostly:
        return
    except BadRecurrence as error:
        raise BadRule(error) from None


def reaction_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """The reaction to events in the form of the API."""
    body: dict[str, Any] = given_options(values, "delay")
    if on := named(values, type="on", source="source", by="by") | named(values, **{"if": "on_if"}):
        body["on"] = on
    cancel_on = named(values, type="cancel_on", by="cancel_by") | named(
        values, **{"if": "cancel_if"}
    )
    if cancel_on:
        body["cancel_on"] = cancel_on
    if gather := gather_body(values):
        body["gather"] = gather
    for name, given in (("on", on), ("cancel_on", cancel_on)):
        if given and "type" not in given:
            raise click.UsageError(f"give --{name.replace('_', '-')} with the type of the events")
    return body


def gather_body(values: Mapping[str, Any]) -> dict[str, Any]:
    names = ("quiet", "keep", "most", "by")
    body = named(values, **{name: f"gather_{name}" for name in names}, **{"for": "gather_for"})
    if values.get("gather_until") is not None:
        body["until"] = {"cron": values["gather_until"]} | given_options(values, "timezone")
    return body


def named(values: Mapping[str, Any], **options: str) -> dict[str, Any]:
    """The options that were given, by other names."""
    return {name: values[one] for name, one in options.items() if values.get(one) is not None}


def instants(values: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Instants in UTC; without an offset they are in --timezone, else in the local zone."""
    zone = zone_of(values.get("timezone"))
    return {
        name: utc_text(read_instant(text, f"--{name.replace('_', '-')}", zone))
        for name, text in given_options(values, *names).items()
    }


def text_or_file(text: str) -> str:
    """The text, or with a leading `@` the content of that file."""
    return file_text(text[1:]) if text.startswith("@") else text


def file_text(path: str) -> str:
    """The content of a file; `-` is standard input."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"{path} cannot be read: {reason}") from None
