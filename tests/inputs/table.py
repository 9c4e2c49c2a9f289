"""Every input, with where it comes in, its bound, and the code with which more is refused.

`python -m inputs.page` (in `tests`) writes docs/reference/limits.md from it; the tests beside it
hold each row to what it says, and to a cost in proportion to its size.
"""

import contextlib
import json
from typing import Any, NamedTuple

from inputs.readers import (
    EXAMPLE,
    ID,
    MOST,
    REFUSALS,
    Read,
    answer_bytes,
    answered,
    command,
    condition,
    evaluated,
    event,
    events,
    extensions,
    http,
    job,
    json_of,
    message,
    named,
    notice,
    notification,
    preview,
    query,
    reaction,
    record,
    redacted,
    redirected_to,
    rendered,
    reported,
    rpc,
    schedule,
    sealed,
    settled,
    submission,
    template,
    window,
)
from inputs.shapes import ANSWERS, CRONS, JSON, RULES, TEMPLATES, TEXTS, Shape, repeated
from onbeat import Onbeat
from onbeat.api.requests import JSON_TYPE, RPC_TYPE
from onbeat.api.security import host_check
from onbeat.cli.jobs import parse_line as parsed_line
from onbeat.cli.options import json_of as json_option
from onbeat.cli.times import read_instant
from onbeat.model import limits
from onbeat.model.broker_options import SQS
from onbeat.model.queue import Limits
from onbeat.model.trace_context import read_traceparent, read_tracestate
from onbeat.recurrence import cron, guess, rrule
from onbeat.recurrence.cron_text import CRON_TEXT_MAX
from onbeat.recurrence.durations import SPAN_TEXT_MAX
from onbeat.recurrence.easter import OFFSET_MAX as EASTER_MAX
from onbeat.recurrence.easter import OFFSET_MIN as EASTER_MIN
from onbeat.recurrence.iso_interval import REPEATING_CHARS_MAX
from onbeat.recurrence.phrase import PHRASE_CHARS_MAX
from onbeat.recurrence.rrule_text import (
    BLOCK_TEXT_MAX,
    DATES_MAX,
    NUMBER_MAX,
    RULE_TEXT_MAX,
    RULES_MAX,
    ZONES_MAX,
)
from onbeat.recurrence.zones import ZONE_NAME_MAX
from onbeat.rules import access, encryption, fence, ip_policy
from onbeat.rules.job_search import read_search
from onbeat.rules.urls import shown_url
from onbeat.settings.sources import unknown, unknown_variable
from onbeat.settings.table import TABLE as SETTINGS
from onbeat.transports.redis.messages import headers_of as redis_headers
from onbeat.transports.sqs.messages import parse_headers
from onbeat.transports.url_options import UrlOptions
from onbeat.wire.access import KEY_QUEUES_MAX, SCOPES_MAX, KeyDraft
from onbeat.wire.broker_messages import ANNOUNCED_MAX, ANNOUNCEMENT_BYTES_MAX, read_announcement
from onbeat.wire.conditions import DAYS_CHARS_MAX, window_fields
from onbeat.wire.event_waits import read_awaited_key, read_awaited_type
from onbeat.wire.idempotency import read_header
from onbeat.wire.jobs import EnqueueBody, ReasonBody
from onbeat.wire.limits import (
    CONCURRENCY_MAX,
    RATE_COUNT_MAX,
    LimitBody,
    changed_limits,
    read_rate,
)
from onbeat.wire.pulses import AskPulses
from onbeat.wire.recurrences import TEXT_CHARS_MAX, PreviewBody
from onbeat.wire.reports import SEAL_CHARS_MAX, ReportBody
from onbeat.wire.requests import PAGE_MAX, BackfillBody, ListJobs, ListQueues, ListSchedules
from onbeat.wire.secrets import CURSOR_CHARS_MAX, ReencryptBody
from onbeat.wire.timeline import ShowTimeline
from onbeat.wire.values import SPAN_CHARS_MAX, read_id, read_queue_name
from onbeat.wire.worker_results import (
    QUEUES_MAX,
    TASKS_MAX,
    TOKEN_CHARS_MAX,
    ClaimBody,
    read_response,
)


class Input(NamedTuple):
    """`read` takes it in; `shapes` are asked at `size` and at twice that. `fits` is the largest
    that is taken, `over` the next one, refused with `code`; without `code` nothing is too large.
    """

    name: str
    place: str
    bound: str
    code: str
    read: Read
    shapes: tuple[Shape, ...] = TEXTS
    size: int = 10_000
    fits: Any = None
    over: Any = None


INVALID, MALFORMED, LARGE = "validation_failed", "invalid_request", "too_large"

NOTICE = "target `notify`, `POST /api/notifications`"
SCHEDULE, JOB = "body of a schedule", "body of a job"
RULE = "body of a schedule or preview, CLI"
EVENT = "event, over HTTP or a broker"
LENIENT = "JSON-RPC; [in a query](rest.md#pages) a larger one is the largest, any other the default"
WORK = "work of remote workers"
ENCRYPTION_KEY = "k:" + "A" * 43


def of(size: int, letter: str = "a") -> str:
    return letter * size


def chars(size: int) -> str:
    return f"{size:,} characters"


def text(
    name: str,
    place: str,
    most: int,
    read: Read,
    code: str = INVALID,
    fill: str = "a",
    head: str = "",
) -> Input:
    """A text with at most so many characters."""
    fits, over = (head + of(size - len(head), fill) for size in (most, most + 1))
    return Input(name, place, chars(most), code, read, fits=fits, over=over)


def number(name: str, place: str, least: int, most: int, read: Read) -> Input:
    bound = f"{least:,} to {most:,}"
    shapes: tuple[Shape, ...] = (lambda n: 10 ** (n // 10), lambda n: -(10 ** (n // 10)))
    return Input(name, place, bound, INVALID, read, shapes, 10_000, most, most + 1)


def member(name: str) -> Read:
    """Reads an event with this member."""
    return lambda value: event({name: value})


def items(
    name: str, place: str, most: int, unit: str, read: Read, make: Any, code: str = INVALID
) -> Input:
    """A list or an object with at most so many items."""
    size = min(10_000, max(1_000, most // 2))
    bound = f"{most:,} {unit}"
    return Input(name, place, bound, code, read, (make,), size, make(most), make(most + 1))


def padded(body: str, size: int) -> bytes:
    return body.encode() + b" " * (size - len(body))


def body(name: str, place: str, most: int, read: Read, whole: str, bound: str = "") -> Input:
    fits, over = padded(whole, most), padded(whole, most + 1)
    shown = bound or f"{most:,} bytes"
    return Input(name, place, shown, LARGE, read, JSON, 30_000, fits, over)


def dates(size: int) -> str:
    return "RDATE:" + ",".join(["20260101"] * size)


def lines(line: str, head: str = "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY") -> Shape:
    return lambda n: "\n".join([head, *[line] * n])


def zoned(size: int) -> str:
    names = [f"Etc/GMT{sign}{n}" for sign in "+-" for n in range(1, 12)]
    return "\n".join(f"RDATE;TZID={name}:20260101T000000" for name in names[:size])


def thinned(lines: int, kept: int) -> str:
    """Of every minute `kept` seconds, by rules that leave out the others."""
    seconds = ",".join(map(str, range(kept, 60)))
    left_out = [f"EXRULE:FREQ=SECONDLY;BYSECOND={seconds}"] * lines
    return "\n".join(["DTSTART:20260101T000000Z", "RRULE:FREQ=SECONDLY", *left_out])


def members(size: int) -> dict[str, str]:
    return {f"x-{n}": "1" for n in range(size)}


def names(size: int) -> list[str]:
    return [f"n{n}" for n in range(size)]


def batch(calls: int) -> bytes:
    whole = {"jsonrpc": "2.0", "method": "stats.show"}
    return json.dumps([{**whole, "id": n} for n in range(calls)]).encode()


def announced(jobs: int) -> bytes:
    one = {"jsonrpc": "2.0", "method": "t", "id": ID, "token": 1}
    return json.dumps([one] * jobs).encode()


def result(inner: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":"%s","result":%s}' % (ID.encode(), inner.encode())


def every_setting(value: object) -> None:
    for setting in SETTINGS.values():
        with contextlib.suppress(*REFUSALS):
            setting.key.read(value)


def every_name(value: str) -> None:
    """Names of settings that are none, with what was meant."""
    unknown(value, "a file")
    unknown_variable(f"ONBEAT_{value}", "")


def broker_options(value: str) -> None:
    options = UrlOptions(value, SQS)
    options.whole_number("visibility")
    options.refuse_unknown()


RULES_AND_TEXTS = (*RULES, *TEXTS)

TABLE: tuple[Input, ...] = (
    # Bodies
    body("JSON", "any request", limits.REQUEST_BYTES_MAX, json_of(PreviewBody), '{"cron":"x"}'),
    body(
        "JSON of many jobs",
        "`POST /api/jobs`, `POST /rpc`",
        MOST,
        json_of(EnqueueBody, MOST),
        '{"task":"a"}',
        f"{MOST:,} bytes; {limits.BULK_BODIES_MAX} over {limits.REQUEST_BYTES_MAX:,} bytes at once",
    ),
    Input(
        "Depth of JSON",
        "any request or message",
        f"{limits.JSON_DEPTH_MAX} levels",
        MALFORMED,
        lambda depth: json_of(list)(b"[" * depth + b"]" * depth),
        (lambda n: n,),
        50_000,
        limits.JSON_DEPTH_MAX,
        limits.JSON_DEPTH_MAX + 1,
    ),
    Input(
        "Numbers in JSON",
        "any request or message",
        "64 bits",
        INVALID,
        lambda value: json_of(list)(b"[%d]" % value),
        (lambda n: 10 ** (n // 20),),
        40_000,
        limits.INTEGER_MAX,
        limits.INTEGER_MAX + 1,
    ),
    items(
        "Calls of a batch",
        "`POST /rpc`, a broker",
        limits.RPC_BATCH_MAX,
        "calls",
        rpc,
        batch,
        MALFORMED,
    ),
    Input("Call of JSON-RPC", "`POST /rpc`, a broker", "as JSON", "", rpc, JSON, 30_000),
    body(
        "One event, with its data",
        EVENT,
        limits.EVENT_BYTES_MAX,
        events,
        '{"type":"a"}',
    ),
    items(
        "Events in one request",
        EVENT,
        limits.EVENTS_MAX,
        "events",
        lambda count: events(b"[" + b",".join([b'{"type":"a"}'] * count) + b"]"),
        lambda n: n,
        LARGE,
    ),
    *(
        text(
            f"`{name}` of an event",
            EVENT,
            limits.EVENT_NAME_CHARS_MAX,
            member(name),
        )
        for name in ("id", "source", "type")
    ),
    *(
        text(
            f"`{name}` of an event",
            EVENT,
            limits.EVENT_TEXT_CHARS_MAX,
            member(name),
            head=head,
        )
        for name, head in (("subject", ""), ("datacontenttype", ""), ("dataschema", "urn:"))
    ),
    items(
        "Extensions of an event",
        EVENT,
        limits.EXTENSIONS_MAX,
        "entries",
        extensions,
        lambda n: {f"n{place}": "a" for place in range(n)},
    ),
    text(
        "Name of an extension",
        EVENT,
        limits.EXTENSION_NAME_CHARS_MAX,
        lambda value: extensions({value: "a"}),
    ),
    text(
        "Text of an extension",
        EVENT,
        limits.EVENT_TEXT_CHARS_MAX,
        lambda value: extensions({"n": value}),
    ),
    number(
        "Number of an extension",
        EVENT,
        -limits.EXTENSION_INTEGER_MAX,
        limits.EXTENSION_INTEGER_MAX,
        lambda value: extensions({"n": value}),
    ),
    Input(
        "Submission of a job",
        "a broker's queue `onbeat.submit`",
        f"{limits.PAYLOAD_BYTES_MAX:,} bytes of arguments",
        LARGE,
        submission,
        JSON,
        30_000,
        b'{"jsonrpc":"2.0","method":"submit:t","params":[%s]}'
        % json.dumps(of(limits.PAYLOAD_BYTES_MAX - 6)).encode(),
        b'{"jsonrpc":"2.0","method":"submit:t","params":[%s]}'
        % json.dumps(of(limits.PAYLOAD_BYTES_MAX - 5)).encode(),
    ),
    # Rules of recurrence
    Input(
        "`rrule`",
        RULE,
        chars(TEXT_CHARS_MAX),
        INVALID,
        named(preview, "rrule"),
        RULES_AND_TEXTS,
        10_000,
        "FREQ=DAILY" + of(TEXT_CHARS_MAX - 10, "\n"),
        "FREQ=DAILY" + of(TEXT_CHARS_MAX - 9, "\n"),
    ),
    Input(
        "A block of rules, in Python",
        "`rrule(…)`",
        chars(BLOCK_TEXT_MAX),
        INVALID,
        rrule,
        RULES,
        20_000,
        "FREQ=DAILY" + of(BLOCK_TEXT_MAX - 10, "\n"),
        "FREQ=DAILY" + of(BLOCK_TEXT_MAX - 9, "\n"),
    ),
    Input(
        "One rule of it",
        RULE,
        chars(RULE_TEXT_MAX),
        INVALID,
        rrule,
        RULES,
        4_000,
        "FREQ=DAILY;BYHOUR=" + "0," * ((RULE_TEXT_MAX - 20) // 2) + "00",
        "FREQ=DAILY;BYHOUR=" + "0," * ((RULE_TEXT_MAX - 20) // 2) + "00;",
    ),
    items("RRULE lines", RULE, RULES_MAX - 1, "beside the first", rrule, lines("RRULE:FREQ=DAILY")),
    items(
        "EXRULE lines",
        RULE,
        limits.EXRULES_MAX,
        "lines",
        rrule,
        lines("EXRULE:FREQ=DAILY;BYHOUR=1"),
    ),
    items("Dates", RULE, DATES_MAX, "RDATEs, as many EXDATEs", rrule, dates),
    items("Zones of dates", RULE, ZONES_MAX, "zones", rrule, zoned),
    Input(
        "COUNT and INTERVAL",
        RULE,
        f"1 to {NUMBER_MAX:,}",
        INVALID,
        lambda value: rrule(f"FREQ=DAILY;INTERVAL={value}"),
        (lambda n: 10 ** (n // 10),),
        10_000,
        NUMBER_MAX,
        NUMBER_MAX + 1,
    ),
    Input(
        "Steps of searching",
        "a request, the plan of a schedule",
        f"{limits.RECURRENCE_STEPS_MAX:,} steps",
        INVALID,
        lambda asked: preview({"rrule": thinned(asked[0], asked[1]), "count": asked[2]}),
        (
            lambda n: (1, 50, n // 20),
            lambda n: (limits.EXRULES_MAX, 50, n // 20),
            lambda n: (limits.EXRULES_MAX, 1, n // 200),
            lambda n: (0, 1, n // 20),
        ),
        10_000,
        (limits.EXRULES_MAX, 1, 400),
        (limits.EXRULES_MAX, 1, 1_000),
    ),
    Input(
        "`cron`",
        RULE,
        chars(CRON_TEXT_MAX),
        INVALID,
        named(preview, "cron"),
        (*CRONS, *TEXTS),
        4_500,
        "* * * * *" + of(CRON_TEXT_MAX - 9, " "),
        "* * * * *" + of(CRON_TEXT_MAX - 8, " "),
    ),
    Input(
        "What `H` stands for",
        "name or key of a schedule, Python",
        "none: linear",
        "",
        lambda key: cron("H H * * *", key=key),
    ),
    text("`every`", RULE, SPAN_TEXT_MAX, named(preview, "every"), fill=" ", head="1s"),
    Input(
        "A phrase in `every`",
        RULE,
        chars(PHRASE_CHARS_MAX),
        INVALID,
        named(preview, "every"),
        (repeated("every monday,"), repeated(" monday,", "every monday,"), repeated("every ")),
        2_000,
        "every" + of(PHRASE_CHARS_MAX - 8, " ") + "15m",
        "every" + of(PHRASE_CHARS_MAX - 7, " ") + "15m",
    ),
    Input(
        "A repeating interval in `every`",
        RULE,
        chars(REPEATING_CHARS_MAX),
        INVALID,
        named(preview, "every"),
        (repeated("R/"), repeated("1", "R", "/2026-01-01/P1D")),
        2_000,
        "R/2026-01-01/P1D" + of(REPEATING_CHARS_MAX - 16, " "),
        "R/2026-01-01/P1D" + of(REPEATING_CHARS_MAX - 15, " "),
    ),
    Input(
        "BYEASTER",
        RULE,
        f"{EASTER_MIN} to {EASTER_MAX} days",
        INVALID,
        lambda value: rrule(f"FREQ=YEARLY;BYEASTER={value}"),
        (lambda n: ",".join(["-80"] * n),),
        2_000,
        EASTER_MAX,
        EASTER_MAX + 1,
    ),
    Input(
        "`at`",
        RULE,
        "years 1 to 9999",
        INVALID,
        named(preview, "at"),
        (*TEXTS, repeated("0", "2026-01-01T00:00:00.", "Z")),
        10_000,
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999999-00:01",
    ),
    Input(
        "`timezone`",
        RULE,
        chars(ZONE_NAME_MAX) + ", one that there is",
        INVALID,
        named(preview, "timezone"),
        (*TEXTS, repeated("Europe/"), repeated("A/b")),
        10_000,
        "America/Argentina/ComodRivadavia",
        of(ZONE_NAME_MAX + 1),
    ),
    number("Occurrences of a preview", "`count`", 1, limits.PREVIEW_MAX, named(preview, "count")),
    Input(
        "Rule of a command", "`onbeat next RULE`", "as above", "", guess, (*RULES, *CRONS, *TEXTS)
    ),
    # Reactions to events
    text(
        "Type and source of a pattern",
        "`on`, `cancel_on`",
        limits.EVENT_NAME_CHARS_MAX,
        lambda value: reaction({"on": {"type": "t", "source": value}}),
    ),
    items(
        "Patterns of events",
        "`on`, `cancel_on`",
        limits.PATTERNS_MAX,
        "patterns",
        named(reaction, "on"),
        lambda n: [{"type": f"t{place}"} for place in range(n)],
    ),
    Input(
        "CEL of a pattern",
        "`if` and `by` in `on`, `cancel_on`",
        chars(limits.EXPRESSION_CHARS_MAX),
        INVALID,
        lambda value: reaction({"on": {"type": "t", "if": value}}),
        (*TEXTS, repeated("!"), repeated("a.", "", "a"), repeated("&&true", "true")),
        fits="true" + of(limits.EXPRESSION_CHARS_MAX - 4, " "),
        over="true" + of(limits.EXPRESSION_CHARS_MAX - 3, " "),
    ),
    number(
        "Events of one job",
        "`gather.most`",
        1,
        limits.GATHER_MAX,
        lambda value: reaction({"gather": {"for": "1h", "most": value}}),
    ),
    # Schedules
    text("Name of a schedule", SCHEDULE, limits.NAME_CHARS_MAX, named(schedule, "name")),
    text("Key of a schedule", SCHEDULE + ", path", limits.KEY_CHARS_MAX, named(schedule, "key")),
    Input(
        "Instants",
        "`starts_at`, `ends_at`, `run_at`, `expires_at`, `after`, `from`, `to`, …",
        "years 1 to 9999",
        INVALID,
        named(schedule, "starts_at"),
        fits="9999-12-31T23:59:59.999999Z",
        over="9999-12-31T23:59:59.999999-00:01",
    ),
    Input(
        "Spans",
        "`timeout`, `grace`, `delay`, `expires_after`, …",
        f"{limits.SPAN_MAX.days:,} days, {chars(SPAN_CHARS_MAX)}",
        INVALID,
        named(schedule, "timeout"),
        fits=f"{limits.SPAN_MAX.days}d",
        over=f"{limits.SPAN_MAX.days}d1s",
    ),
    Input(
        "Length of a span",
        "the same",
        chars(SPAN_CHARS_MAX),
        INVALID,
        named(schedule, "timeout"),
        fits="0" * (SPAN_CHARS_MAX - 2) + "1s",
        over="0" * (SPAN_CHARS_MAX - 1) + "1s",
    ),
    Input(
        "CEL of a condition",
        "body of a schedule or job",
        chars(limits.EXPRESSION_CHARS_MAX),
        INVALID,
        condition,
        (*TEXTS, repeated("!"), repeated("a.", "", "a"), repeated("&&true", "true")),
        fits="true" + of(limits.EXPRESSION_CHARS_MAX - 4, " "),
        over="true" + of(limits.EXPRESSION_CHARS_MAX - 3, " "),
    ),
    items(
        "Loops of an expression within one another",
        "the same",
        limits.EXPRESSION_LOOPS_MAX,
        "loops",
        condition,
        lambda n: "[1].all(a, " * n + "true" + ")" * n,
    ),
    items(
        "Pattern of an expression",
        "`matches()`",
        limits.EXPRESSION_PATTERN_MAX,
        "characters, each as often as it is counted with `{}`",
        condition,
        lambda n: f"job.id.matches('{of(n)}')",
    ),
    Input(
        "Facts of an expression",
        "job, events, answer",
        f"{limits.EXPRESSION_FACTS_BYTES_MAX:,} bytes, {limits.EXPRESSION_COST_MAX:,} steps;"
        " a failed attempt",
        "",
        evaluated,
        (lambda n: of(n // 2), lambda n: ["a"] * (n // 8)),
    ),
    items(
        "Windows",
        "body of a schedule or job",
        limits.WINDOWS_MAX,
        "windows",
        named(job, "window"),
        lambda n: [{"from": "22:00", "to": "06:00", "timezone": "UTC"}] * n,
    ),
    text(
        "Days of a window", "the same", DAYS_CHARS_MAX, named(window, "days"), fill=" ", head="MON"
    ),
    Input(
        "Times of a window",
        "the same",
        "00:00 to 24:00",
        INVALID,
        named(window, "to"),
        fits="24:00",
        over="24:01",
    ),
    Input(
        "Window of a command",
        "`--window`",
        "as a window",
        "",
        lambda value: window_fields(value, "--window"),
        (*TEXTS, repeated("MON,", "", " 1:00-2:00 UTC"), repeated(" ", "MON", "1:00")),
    ),
    items(
        "Labels",
        "body of a schedule or job",
        limits.LABELS_MAX,
        "entries",
        named(job, "labels"),
        members,
    ),
    text(
        "Name of a label",
        "the same",
        limits.LABEL_CHARS_MAX,
        lambda name: job({"labels": {name: "1"}}),
    ),
    text(
        "Value of a label",
        "the same",
        limits.LABEL_CHARS_MAX,
        lambda value: job({"labels": {"l": value}}),
    ),
    number(
        "Occurrences of a backfill",
        "`limit`",
        1,
        limits.BACKFILL_MAX,
        record(
            BackfillBody, "limit", **{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
        ),
    ),
    # Jobs
    items(
        "Jobs of one request",
        "`POST /api/jobs`",
        limits.BULK_JOBS_MAX,
        "jobs",
        named(job, "jobs"),
        lambda n: [{"task": "t"}] * n,
    ),
    text("Name of a task", JOB, limits.NAME_CHARS_MAX, named(job, "task")),
    text(
        "Name of a queue",
        "body of a schedule or job, path",
        limits.NAME_CHARS_MAX,
        named(job, "queue"),
    ),
    text("Name of a group", JOB, limits.NAME_CHARS_MAX, named(job, "group")),
    text("`unique`", JOB, limits.KEY_CHARS_MAX, named(job, "unique")),
    Input(
        "Arguments",
        "`args` and `kwargs` of a job",
        f"{limits.PAYLOAD_BYTES_MAX:,} bytes",
        LARGE,
        lambda value: job({"args": [value]}),
        fits=of(limits.PAYLOAD_BYTES_MAX - len('[""]{}')),
        over=of(limits.PAYLOAD_BYTES_MAX - len('[""]{}') + 1),
    ),
    items(
        "Jobs to wait for",
        "`after`",
        limits.AFTER_MAX,
        "ids",
        named(job, "after"),
        lambda n: [ID] * n,
    ),
    number(
        "`priority`",
        "body of a schedule or job",
        limits.PRIORITY_MIN,
        limits.PRIORITY_MAX,
        named(job, "priority"),
    ),
    number(
        "`attempts_max`",
        "`retry`",
        1,
        limits.ATTEMPTS_MAX,
        lambda value: job({"retry": {"attempts_max": value}}),
    ),
    text(
        "`cursor` of a rotation",
        "`POST /api/secrets/rotate`",
        CURSOR_CHARS_MAX,
        record(ReencryptBody, "cursor"),
    ),
    Input(
        "Ids",
        "path, `after`, `cursor`",
        "24, 32 or 36 characters",
        MALFORMED,
        lambda value: read_id(value, "job"),
        fits=ID,
        over=ID + "0",
    ),
    text(
        "Type of an awaited event",
        "`context.wait_for`; fails the job",
        limits.EVENT_NAME_CHARS_MAX,
        read_awaited_type,
    ),
    text(
        "`by` of an awaited event",
        "`context.wait_for`; fails the job",
        limits.KEY_CHARS_MAX,
        read_awaited_key,
    ),
    text(
        "Reason of a cancel",
        "`POST …/cancel`",
        limits.REASON_CHARS_MAX,
        record(ReasonBody, "reason"),
    ),
    text(
        "Idempotency key",
        "header, member `key`",
        limits.IDEMPOTENCY_KEY_CHARS_MAX,
        lambda key: read_header("Idempotency-Key", [key]),
        MALFORMED,
    ),
    Input(
        "Trace context",
        "header `traceparent` of a request or message",
        f"{limits.TRACEPARENT_CHARS_MAX} characters; any other counts as none",
        "",
        read_traceparent,
    ),
    Input(
        "Trace state",
        "header `tracestate` of a request or message",
        f"{limits.TRACESTATE_CHARS_MAX} characters, {limits.TRACESTATE_MEMBERS_MAX} members;"
        " any other is dropped",
        "",
        lambda text: read_tracestate([text]),
    ),
    # Callbacks and messages
    text(
        "URL of a callback",
        SCHEDULE + " or job",
        limits.URL_CHARS_MAX,
        named(http, "url"),
        LARGE,
        head=EXAMPLE,
    ),
    items(
        "Headers of a callback",
        "the same",
        limits.HEADERS_MAX,
        "headers",
        named(http, "headers"),
        members,
        LARGE,
    ),
    text(
        "Value of a header",
        "the same",
        limits.HEADER_BYTES_MAX,
        lambda value: http({"headers": {"x": value}}),
        LARGE,
    ),
    Input(
        "Name of a header",
        "the same",
        f"{limits.HEADER_BYTES_MAX:,} bytes",
        INVALID,
        lambda name: http({"headers": {name: "1"}}),
        fits=of(limits.HEADER_BYTES_MAX),
        over=of(limits.HEADER_BYTES_MAX + 1),
    ),
    text("Body of a callback", "the same", limits.PAYLOAD_BYTES_MAX, named(http, "body"), LARGE),
    Input(
        "Method",
        "the same",
        "one of seven",
        INVALID,
        named(http, "method"),
        fits="OPTIONS",
        over="OPTIONSS",
    ),
    Input(
        "Secret",
        "the same",
        "24 to 64 bytes",
        INVALID,
        named(http, "secret"),
        fits="whsec_" + of(85) + "A",
        over="whsec_" + of(88),
    ),
    items(
        "Statuses that count as success",
        "the same",
        limits.STATUSES_MAX,
        "statuses",
        named(http, "success"),
        lambda count: [200] * count,
    ),
    text("Status", "the same", 3, lambda text: http({"success": [text]}), head="2x", fill="x"),
    number("Redirects", "the same", 0, limits.REDIRECTS_MAX, named(http, "redirects")),
    Input(
        "`connect_timeout` of a callback",
        "the same",
        "10 ms to 5 minutes",
        INVALID,
        named(http, "connect_timeout"),
        fits="5m",
        over="5m1s",
    ),
    text(
        "`Location` of an answer",
        "answer to a callback whose redirects are followed",
        limits.URL_CHARS_MAX,
        redirected_to,
        LARGE,
        head=EXAMPLE,
    ),
    body(
        "Report of an attempt",
        "`POST /api/reports/{id}`",
        limits.REPORT_BYTES_MAX,
        json_of(ReportBody, limits.REPORT_BYTES_MAX),
        '{"outcome":"succeeded"}',
    ),
    Input(
        "Result of a report",
        "the same",
        f"{limits.RESULT_BYTES_MAX:,} bytes",
        LARGE,
        named(reported, "result"),
        fits=of(limits.RESULT_BYTES_MAX - 2),
        over=of(limits.RESULT_BYTES_MAX - 1),
    ),
    Input("Seal of its address", "the same", f"{SEAL_CHARS_MAX} characters", "", sealed),
    items(
        "Headers of a message",
        "target `message`",
        limits.HEADERS_MAX,
        "headers",
        named(message, "headers"),
        members,
    ),
    # Commands
    items(
        "Program and arguments of a command",
        "target `command`",
        limits.COMMAND_ARGS_MAX,
        "items",
        named(command, "command"),
        lambda size: ["/bin/p", *["a"] * (size - 1)],
        LARGE,
    ),
    text(
        "Program of a command",
        "the same, `commands.allow`",
        limits.NAME_CHARS_MAX,
        lambda path: command({"command": [path]}),
        head="/",
    ),
    text(
        "Argument of a command",
        "target `command`",
        limits.COMMAND_ARG_BYTES_MAX,
        lambda value: command({"command": ["/bin/p", value]}),
        LARGE,
    ),
    items(
        "Variables of a command",
        "the same, `env`",
        limits.COMMAND_ENV_MAX,
        "variables",
        named(command, "env"),
        lambda size: {f"V{n}": "1" for n in range(size)},
        LARGE,
    ),
    text(
        "Name of a variable",
        "the same",
        limits.COMMAND_ENV_NAME_CHARS_MAX,
        lambda name: command({"env": {name: "1"}}),
        head="A",
    ),
    text(
        "Value of a variable",
        "the same",
        limits.COMMAND_ENV_BYTES_MAX,
        lambda value: command({"env": {"V": value}}),
        LARGE,
    ),
    text(
        "Folder of a command",
        "the same, `cwd`",
        limits.COMMAND_CWD_CHARS_MAX,
        named(command, "cwd"),
        head="/",
    ),
    Input(
        "Input of a command",
        "the same, `stdin`",
        f"{limits.PAYLOAD_BYTES_MAX:,} bytes, with its arguments and variables",
        LARGE,
        named(command, "stdin"),
        fits=of(limits.PAYLOAD_BYTES_MAX - len("/bin/p")),
        over=of(limits.PAYLOAD_BYTES_MAX - len("/bin/p") + 1),
    ),
    # Notices
    text("Title of a notice", NOTICE, limits.TITLE_CHARS_MAX, named(notice, "title"), LARGE),
    Input(
        "Texts and data of a notice",
        NOTICE,
        f"{limits.PAYLOAD_BYTES_MAX:,} bytes",
        LARGE,
        named(notice, "text"),
        fits=of(limits.PAYLOAD_BYTES_MAX - 2),
        over=of(limits.PAYLOAD_BYTES_MAX - 1),
    ),
    text(
        "Recipient of a notice",
        NOTICE,
        limits.RECIPIENT_CHARS_MAX,
        lambda to: notice({"to": to}),
        LARGE,
    ),
    Input(
        "Address of a mail",
        NOTICE,
        f"{limits.ADDRESS_CHARS_MAX} characters, {limits.LOCAL_PART_CHARS_MAX} before the @",
        INVALID,
        lambda to: notice({"channel": "mail", "to": to}),
        fits=of(limits.LOCAL_PART_CHARS_MAX) + "@example.com",
        over=of(limits.LOCAL_PART_CHARS_MAX + 1) + "@example.com",
    ),
    Input(
        "Recipients of a notice",
        "`POST /api/notifications`",
        f"{limits.NOTICE_RECIPIENTS_MAX:,}, and {limits.BULK_REQUEST_BYTES_MAX:,} bytes for all",
        INVALID,
        named(notification, "to"),
        (names,),
        2_000,
        names(limits.NOTICE_RECIPIENTS_MAX),
        names(limits.NOTICE_RECIPIENTS_MAX + 1),
    ),
    Input(
        "Template of a notice",
        NOTICE,
        f"{limits.TEMPLATE_CHARS_MAX:,} characters, with the marks of Liquid",
        LARGE,
        template,
        TEMPLATES,
        5_000,
        "{{ now }}" + of(limits.TEMPLATE_CHARS_MAX - 9),
        "{{ now }}" + of(limits.TEMPLATE_CHARS_MAX - 8),
    ),
    Input(
        "What a template makes",
        "at an attempt",
        f"{limits.RENDERED_BYTES_MAX:,} bytes; {limits.TEMPLATE_LOOPS_MAX:,} turns of a loop, and"
        f" {limits.TEMPLATE_WORK_MAX:,} characters in all turns or filters",
        "",
        lambda value: rendered("{{ data.a | upcase }}", value),
    ),
    Input(
        "Answer of a callback",
        "an endpoint",
        f"{limits.CALLBACK_BYTES_READ_MAX:,} bytes read, {limits.CALLBACK_BYTES_KEPT_MAX:,} kept;"
        f" {limits.CALLBACK_RESPONSE_HEADERS_MAX} headers of"
        f" {limits.CALLBACK_RESPONSE_HEADER_BYTES_MAX:,} bytes",
        "",
        answered,
        (
            *TEXTS,
            repeated("9", "Mon, 01 Jan ", " 00:00:00 GMT"),
            repeated("9", "Mon, 01 Jan 2026 00:00:00 +"),
        ),
    ),
    Input("URL in a message or log line", "anything that is logged", "none: linear", "", redacted),
    Input("URL that is shown", "the same", "200 characters are shown", "", shown_url),
    # Workers in other languages
    body(
        "Result of a job",
        WORK,
        limits.REQUEST_BYTES_MAX,
        lambda sent: read_response(sent, has_token=True),
        result("1").decode(),
    ),
    Input(
        "Bytes of such an answer",
        "an endpoint",
        f"{limits.CALLBACK_BYTES_RECEIVED_MAX:,} bytes with the framing of chunks; before it"
        f" {limits.CALLBACK_INTERIM_ANSWERS_MAX} interim answers of"
        f" {limits.CALLBACK_INTERIM_BYTES_MAX:,} bytes",
        "",
        answer_bytes,
        ANSWERS,
    ),
    Input(
        "Kept result",
        WORK,
        f"{limits.RESULT_BYTES_MAX:,} bytes",
        LARGE,
        named(settled, "result"),
        fits=of(limits.RESULT_BYTES_MAX - 2),
        over=of(limits.RESULT_BYTES_MAX - 1),
    ),
    Input(
        "Error of a job",
        WORK,
        f"{limits.ERROR_CHARS_MAX:,} characters are kept, the end of it; of a longer one at most "
        f"{limits.ERROR_LINE_CHARS_MAX:,} of each line",
        "",
        lambda value: settled(
            {"error": {"message": value, "data": {"text": value, "retry_after": value}}}
        ),
    ),
    text("Token", WORK, TOKEN_CHARS_MAX, lambda value: settled({"token": value, "release": True})),
    Input("Sealed token", "the same", "42 characters", "", fence.FORM.fullmatch),
    items(
        "Tasks of a worker", WORK, TASKS_MAX, "names", record(ClaimBody, "tasks", worker="w"), names
    ),
    items(
        "Queues of a worker",
        WORK,
        QUEUES_MAX,
        "names",
        record(ClaimBody, "queues", worker="w", tasks=["t"]),
        names,
    ),
    number(
        "Jobs of a claim",
        "`limit`",
        1,
        limits.CLAIM_MAX,
        record(ClaimBody, "limit", worker="w", tasks=["t"]),
    ),
    Input(
        "Announcement of jobs",
        "a broker's queue `onbeat.run.…`",
        f"{ANNOUNCEMENT_BYTES_MAX:,} bytes",
        MALFORMED,
        read_announcement,
        JSON,
        30_000,
        padded(announced(1).decode(), ANNOUNCEMENT_BYTES_MAX),
        padded(announced(1).decode(), ANNOUNCEMENT_BYTES_MAX + 1),
    ),
    items(
        "Jobs of an announcement",
        "the same",
        ANNOUNCED_MAX,
        "jobs",
        read_announcement,
        announced,
        MALFORMED,
    ),
    Input(
        "Headers of a broker's message",
        "Redis, SQS",
        "what the broker takes",
        "",
        lambda sent: (redis_headers(sent), parse_headers(sent.decode("utf-8", "replace"))),
        JSON,
        30_000,
    ),
    Input(
        "Line of a file of jobs",
        "`onbeat job add --file`",
        "as JSON",
        "",
        lambda sent: parsed_line(sent.decode("utf-8", "replace"), 1),
        JSON,
        30_000,
    ),
    # Lists, queues, keys
    number("`limit` of a list", LENIENT, 1, limits.PAGE_LIMIT_MAX, query(ListQueues, "limit")),
    number("`page` of a list", LENIENT, 1, PAGE_MAX, query(ListQueues, "page")),
    text("`q` of a list", "query", 200, query(ListSchedules, "q")),
    text("`queue` of figures over time", "query", 200, query(AskPulses, "queue")),
    text("`task` of figures over time", "query", 200, query(AskPulses, "task")),
    text("`day` of a timeline", "query", 40, query(ShowTimeline, "day")),
    text("`error` of a search", "query", limits.SEARCH_CHARS_MAX, query(ListJobs, "error")),
    text("`label` of a search", "query", limits.LABEL_FILTER_CHARS_MAX, query(ListJobs, "label")),
    text("Line of search", "`/jobs` of the dashboard", limits.SEARCH_CHARS_MAX, read_search),
    text(
        "Name of a queue in a path",
        "path",
        limits.NAME_CHARS_MAX,
        lambda name: read_queue_name(name, "name"),
    ),
    number(
        "Concurrency of a queue",
        "limits of a queue",
        1,
        CONCURRENCY_MAX,
        record(LimitBody, "concurrency"),
    ),
    Input(
        "Rate of a queue",
        "limits of a queue",
        f"{RATE_COUNT_MAX:,} starts in a span of 1ms to 31d",
        INVALID,
        lambda rate: (record(LimitBody, "rate")(rate), read_rate(rate, "rate")),
        (*TEXTS, repeated(" ", "1", "/s"), repeated("1", "", "/s")),
        10_000,
        f"{RATE_COUNT_MAX}/31d",
        f"{RATE_COUNT_MAX + 1}/31d",
    ),
    Input(
        "`late_after` of a queue",
        "limits of a queue",
        "a span of 1s to 31d",
        INVALID,
        lambda span: changed_limits(Limits(), LimitBody(late_after=span)),
        (*TEXTS, repeated("1h", "")),
        10_000,
        "31d",
        "31d1s",
    ),
    text(
        "`owner` and `release` of a program",
        "Python, settings",
        limits.NAME_CHARS_MAX,
        lambda name: Onbeat("memory://", owner=name, release=name),
    ),
    items(
        "Scopes of a key",
        "`POST /api/keys`",
        SCOPES_MAX,
        "scopes",
        record(KeyDraft, "scopes", name="k"),
        names,
    ),
    items(
        "Queues of a key",
        "`POST /api/keys`",
        KEY_QUEUES_MAX,
        "names",
        record(KeyDraft, "queues", name="k", scopes=["work"]),
        names,
    ),
    text(
        "Name of a key",
        "`POST /api/keys`",
        limits.NAME_CHARS_MAX,
        access.read_key_name,
    ),
    # Heads of requests, and settings
    Input(
        "Line and headers of a request",
        "any request",
        f"{limits.REQUEST_HEAD_BYTES_MAX:,} bytes, {limits.REQUEST_HEADERS_MAX} headers,"
        f" a URL of {limits.REQUEST_URL_BYTES_MAX:,} bytes",
        "",
        lambda value: (JSON_TYPE.fullmatch(value), RPC_TYPE.fullmatch(value)),
        (*TEXTS, repeated("a+", "application/", "json"), repeated(" ", "application/json", ";x")),
    ),
    Input(
        "Host",
        "any request",
        "a name of the service, or an address",
        "",
        host_check(("localhost",)),
    ),
    Input(
        "API key that is sent",
        "any request",
        chars(access.KEY_CHARS_MAX),
        "",
        lambda key: (access.matching((), key), access.is_mistyped(key)),
    ),
    Input(
        "API keys",
        "setting `api.keys`",
        chars(access.KEY_CHARS_MAX),
        "",
        lambda value: access.read_configured_key(value, 1),
        (
            *TEXTS,
            repeated("a", "n:read:", "=k"),
            repeated("@", "n:read=k"),
            repeated("@2026-01-01", "n:read=k"),
        ),
    ),
    Input(
        "Encryption keys",
        "setting `secrets.keys`",
        f"{encryption.KEYS_MAX} keys of an id and {encryption.KEY_BYTES} bytes",
        INVALID,
        encryption.read_keys,
        (lambda n: ["a:" + of(n)], lambda n: [ENCRYPTION_KEY] * n),
        fits=[f"k{n}:{of(43, 'A')}" for n in range(encryption.KEYS_MAX)],
        over=[f"k{n}:{of(43, 'A')}" for n in range(encryption.KEYS_MAX + 1)],
    ),
    Input(
        "Hosts that callbacks may call",
        "setting `http.allow`",
        "none: linear",
        "",
        lambda value: ip_policy.parse_allowed([value]),
    ),
    Input(
        "Every setting",
        "file, environment, flag",
        "each its own, see [settings](settings.md)",
        "",
        every_setting,
    ),
    Input("Names of settings", "file, environment", "those that there are", "", every_name),
    Input(
        "Options of a broker",
        "URL of `transport` and `connections`",
        "those that there are",
        "",
        broker_options,
        (*TEXTS, repeated("&a=1", "a=2"), repeated("9", "prefetch=")),
    ),
    Input(
        "Instants of a command",
        "`--from`, `--after`, …",
        "years 1 to 9999",
        "",
        lambda value: read_instant(value, "--after"),
        (
            *TEXTS,
            lambda n: ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")[n % 20_000 == 0],
        ),
    ),
    Input(
        "JSON of a command",
        "`--args`, `--kwargs`",
        "as JSON",
        "",
        lambda value: json_option(value, list, "--args", "[1]"),
        (*(lambda n, shape=shape: shape(n).decode("utf-8", "replace") for shape in JSON),),
    ),
)
