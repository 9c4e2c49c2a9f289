"""What log lines look like, and what never shows in them."""

import io
import json
import logging
import shlex
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from cost import assert_linear
from onbeat.model.errors import Misconfigured
from onbeat.telemetry.log import configure_logging, formatter, is_on_terminal, set_levels
from onbeat.telemetry.redaction import escape_controls, redactor
from onbeat.telemetry.structured_log import Log, LogLine


@dataclass(frozen=True)
class Options:
    level: str = "info"
    format: str = "logfmt"
    destinations: tuple[str, ...] = ("stdout",)
    levels: Mapping[str, str] = field(default_factory=dict[str, str])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before[0]:
            root.removeHandler(handler)
            handler.close()
    root.handlers[:] = before[0]
    set_levels({})
    root.setLevel(before[1])  # `root.level` would leave what the loggers remember
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Sets logging up on a stream and gives back what was written to it."""

    def set_up(
        stream: Any = None, secrets: list[str] | tuple[Any, ...] = (), **options: Any
    ) -> Callable[..., Any]:
        stream = stream or io.StringIO()
        monkeypatch.setattr("sys.stdout", stream)
        configure_logging(replace(Options(), **options), secrets=secrets)
        return lambda: stream.getvalue().splitlines()

    return set_up


def fields_of(line: str) -> dict[str, Any]:
    """A line of logfmt, taken apart by shell rules, which suffice for what is written here."""
    return dict(part.split("=", 1) for part in shlex.split(line))


def test_a_line_in_logfmt_begins_with_time_level_and_event(lines: Callable[..., Any]) -> None:
    written = lines(format="logfmt")
    Log("onbeat.jobs").bind(queue="mail").warning("job.failed", job="0192", error='no "such" thing')
    (line,) = written()
    fields = fields_of(line)
    assert list(fields)[:3] == ["time", "level", "event"]
    assert fields["time"].endswith("Z")
    assert fields["level"] == "warning"
    assert fields["event"] == "job.failed"
    assert fields["queue"] == "mail"
    assert fields["job"] == "0192"
    assert fields["error"] == 'no "such" thing'
    assert fields["logger"] == "onbeat.jobs"


def test_a_line_in_json_is_one_object(lines: Callable[..., Any]) -> None:
    written = lines(format="json")
    Log("onbeat").info("ready", url="http://127.0.0.1:8080", port=8080, tls=False, nothing=None)
    result = json.loads(written()[0])
    assert result["event"] == "ready"
    assert (result["port"], result["tls"], result["nothing"]) == (8080, False, None)


@pytest.mark.parametrize("form", ["logfmt", "json", "console"])
def test_lines_of_others_come_out_in_the_same_form(lines: Callable[..., Any], form: str) -> None:
    written = lines(format=form)
    logging.getLogger("uvicorn.error").info("Started %s", "server", extra={"color_message": "C"})
    logging.getLogger("uvicorn.access").info(
        '%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", "/api/jobs", "1.1", 200
    )
    logging.getLogger("mine").info("plain", extra={"n": 1})
    structlog.get_logger("theirs").info("structured", n=2)
    started, access, plain, structured = written()
    assert "Started server" in started
    assert "color_message" not in started
    assert "http.request" in access
    assert "/api/jobs" in access
    assert "plain" in plain
    assert "structured" in structured


def test_warnings_are_logged(lines: Callable[..., Any]) -> None:
    written = lines()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
    assert "mind the gap" in written()[0]


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_the_level_cuts_off_what_is_below_it(
    lines: Callable[..., Any], level: str, expected: int
) -> None:
    written = lines(level=level)
    log = Log("onbeat")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(written()) == expected


def test_single_loggers_have_levels_of_their_own(lines: Callable[..., Any]) -> None:
    written = lines(level="warning", levels={"shop": "debug", "shop.loud": "error"})
    for name in ("other", "shop", "shop.part", "shop.loud"):
        logging.getLogger(name).info("of %s", name)
    assert [fields_of(line)["event"] for line in written()] == ["of shop", "of shop.part"]


def test_levels_that_are_no_longer_set_follow_their_parents(lines: Callable[..., Any]) -> None:
    lines(levels={"shop": "error"})
    written = lines(levels={})
    logging.getLogger("shop").info("again")
    assert len(written()) == 1


@pytest.mark.parametrize(
    ("stream", "options", "expected"),
    [
        (Terminal(), Options(format="auto"), True),
        (Terminal(), Options(format="console"), True),
        (Terminal(), Options(format="json"), False),
        (Terminal(), Options(format="auto", destinations=("file:x.log",)), False),
        (io.StringIO(), Options(format="console"), False),
    ],
)
def test_people_read_console_lines_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: Any, options: Options, expected: bool
) -> None:
    monkeypatch.setattr("sys.stdout", stream)
    assert is_on_terminal(options) is expected


def test_console_has_colours_only_on_a_terminal(
    lines: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written = lines(Terminal(), format="auto")
    Log("onbeat").info("ready", n=1)
    assert "\x1b[" in written()[0]
    written = lines(io.StringIO(), format="console")
    Log("onbeat").info("ready", n=1)
    assert "\x1b[" not in written()[0]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(
    lines: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    written = lines(Terminal(), format="auto")
    Log("onbeat").info("ready")
    assert "\x1b[" not in written()[0]


def test_auto_is_logfmt_when_nobody_watches(lines: Callable[..., Any]) -> None:
    written = lines(format="auto")
    Log("onbeat").info("ready")
    assert written()[0].startswith("time=")


def test_a_file_takes_lines_without_colours_and_only_its_owner_reads_it(
    lines: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "onbeat.log"
    written = lines(Terminal(), format="auto", destinations=("stdout", f"file:{path}"))
    Log("onbeat").info("ready", n=1)
    assert len(written()) == 1
    assert path.read_text().startswith("time=")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        Misconfigured, match=r"log\.destinations: .*nowhere.*No such file"
    ) as caught:
        configure_logging(Options(destinations=(f"file:{tmp_path}/nowhere/x.log",)))
    assert caught.value.key == "log.destinations"


def test_setting_up_twice_writes_once(lines: Callable[..., Any]) -> None:
    lines()
    written = lines()
    Log("onbeat").info("ready")
    assert len(written()) == 1


def failing(message: str, password: str | None = None) -> None:
    raise ValueError(message)


HOSTILE = "first\nlevel=error event=forged\r\x1b[31m\x9b\u2028\u202eend"


@pytest.mark.parametrize("form", ["logfmt", "json", "console"])
def test_a_value_cannot_forge_a_line_or_drive_a_terminal(
    lines: Callable[..., Any], form: str
) -> None:
    written = lines(format=form)
    Log("onbeat").info("job.failed", error=HOSTILE, **{f"k{HOSTILE}": 1})
    logging.getLogger("other").warning(HOSTILE)
    assert len(written()) == 2
    assert all(line.isprintable() for line in written())


@pytest.mark.parametrize("form", ["logfmt", "json", "console"])
def test_a_traceback_shows_no_local_variables_and_forges_nothing(
    lines: Callable[..., Any], form: str
) -> None:
    written = lines(format=form)
    try:
        failing("\nlevel=error event=forged\x1b[31m", password="yranac"[::-1])
    except ValueError as error:
        Log("onbeat").error("loop.failed", error, loop="planner")
    text = "\n".join(written())
    assert "ValueError" in text
    assert "canary" not in text
    assert all(line.isprintable() for line in written())
    if form == "console":
        assert all(line.startswith("    ") for line in written()[1:])
    else:
        assert len(written()) == 1
    if form == "json":
        assert "\n" in json.loads(text)["exception"]


CANARIES = [
    {"password": "canary"},
    {"headers": {"Authorization": "Bearer canary", "Cookie": "canary"}},
    {"api_key": "canary", "API-Key": "canary", "client_secret": b"canary"},
    {"url": "https://me:canary@example.com/x?token=canary#f"},
    {"urls": ["postgresql://u:canary@db/x", ("amqp://canary@h",)]},
    {"error": "401 for url 'https://example.com/?key=canary' with Authorization: Bearer canary-1"},
    {"urls": "a.b-http://h/?k=canary 0http://h?canary x=http://h/?a=canary&http://i/?canary"},
    {"text": "nothing://here https://h/?canary"},
    {"body": "the known secret s3cr3t-known is hidden"},
    {"nested": [{"deep": {"webhook-signature": "v1,canary"}}]},
]


@pytest.mark.parametrize("form", ["logfmt", "json", "console"])
@pytest.mark.parametrize("fields", CANARIES)
def test_secrets_are_hidden_by_name_by_value_and_by_place(
    lines: Callable[..., Any], form: str, fields: dict[str, Any]
) -> None:
    written = lines(format=form, secrets=["s3cr3t-known", "x"])
    Log("onbeat").info("job.failed", **fields)
    logging.getLogger("other").info("s3cr3t-known in a message, https://u:canary@h/?q=canary")
    text = "\n".join(written())
    assert "canary" not in text
    assert "s3cr3t" not in text
    assert "***" in text


def test_a_secret_in_a_traceback_is_hidden(lines: Callable[..., Any]) -> None:
    written = lines(secrets=["s3cr3t-known"])
    message = "https://u:canary@h/ s3cr3t-known"
    try:
        failing(message)
    except ValueError as error:
        Log("onbeat").error("loop.failed", error)
    (text,) = written()
    assert "canary" not in text
    assert "ValueError: https://***@h/ ***" in text


def test_the_fencing_token_is_a_number_and_stays(lines: Callable[..., Any]) -> None:
    written = lines()
    Log("onbeat").info("job.claimed", token=7)
    assert "token=7" in written()[0]


def test_the_longer_of_two_secrets_leaves_no_rest() -> None:
    assert redactor(["abcd", "abcdefgh"])("x abcdefgh y abcd") == "x *** y ***"


@pytest.mark.parametrize(
    "text",
    [
        "a://b://c://d?",
        "https://h/?#top",
        "key=payroll",
        "a token of thanks",
        "http://127.0.0.1:8080/api/jobs",
        "basic english",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redactor([])(text) == text


@given(st.text())
def test_escaped_text_stays_on_its_line(text: str) -> None:
    assert len(escape_controls(text).splitlines()) <= 1


@given(st.text(), st.text())
def test_any_field_makes_one_line_of_logfmt_and_json(key: str, value: str) -> None:
    line = LogLine("event", {key: value})
    record = logging.LogRecord("onbeat", logging.INFO, "", 0, line, (), None)
    for form in ("logfmt", "json"):
        assert (
            len(formatter(form, redactor([]), with_colors=False).format(record).splitlines()) == 1
        )


def test_without_our_set_up_a_line_is_plain_text() -> None:
    record = logging.LogRecord(
        "o", logging.INFO, "", 0, LogLine("job.failed", {"job": 1}), (), None
    )
    assert record.getMessage() == "job.failed job=1"


COSTLY = [
    lambda n: "a." * n + "://",
    lambda n: "a://" * n,
    lambda n: "a://?" * n,
    lambda n: "a://" + "@" * n,
    lambda n: "://@" * n,
    lambda n: "authorization " * n,
    lambda n: "authorization:" + "a" * n + " " * n,
    lambda n: "authorization:a " * n,
    lambda n: "bearer " + " " * n,
    lambda n: "bearer a " * n,
    lambda n: "abcdefg" * n,
    lambda n: "\x1b" * n,
]


@pytest.mark.parametrize("text", COSTLY, ids=lambda text: text(1))
def test_redaction_costs_in_proportion_to_the_text(text: Callable[..., Any]) -> None:
    redact = redactor(["abcdefgh", "abcdefghi"])

    def shown(n: int) -> Callable[..., Any]:
        sent = text(n)
        return lambda: escape_controls(redact(sent))

    assert_linear(shown(4_000), shown(8_000), "redaction")
