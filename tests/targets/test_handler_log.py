"""What handlers log by the standard `logging`, as entries of their attempt's log."""

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from onbeat.model.log_line import LogEntry
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.ports.target import UnleasedRun
from onbeat.targets.context import Context
from onbeat.targets.handler_log import INSTALLATION, HandlerLogger
from onbeat.telemetry.kept_lines import cleaner
from onbeat.testing.build import a_job


class ListLog:
    """Implements `onbeat.ports.job_log.AttemptLog`."""

    def __init__(self) -> None:
        self.kept_level: int | None = logging.INFO
        self.entries: list[LogEntry] = []

    def add_entry(self, entry: LogEntry) -> None:
        self.entries.append(entry)

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries]


@pytest.fixture
def log() -> Iterator[ListLog]:
    result = ListLog()
    token = ATTEMPT_LOG.set(result)
    INSTALLATION.attach()
    yield result
    INSTALLATION.detach()
    ATTEMPT_LOG.reset(token)


@pytest.fixture
def shop() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.mail")
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(logging.NOTSET)


def fail() -> None:
    raise ValueError("broke")


def test_a_record_becomes_an_entry(log: ListLog, shop: logging.Logger) -> None:
    shop.warning("sent %d to %s", 2, "ada", extra={"order": 7, "parts": ("a", object)})
    (entry,) = log.entries
    assert (entry.level, entry.logger, entry.text) == ("warning", "shop.mail", "sent 2 to ada")
    assert entry.fields == {"order": 7, "parts": ["a", "<class 'object'>"]}
    assert entry.at.tzinfo is not None


def test_lines_below_the_level_and_outside_of_attempts_are_left_out(
    log: ListLog, shop: logging.Logger
) -> None:
    shop.debug("too low")
    log.kept_level = None
    shop.error("nothing is kept")
    ATTEMPT_LOG.set(None)
    shop.error("nobody runs")
    assert log.entries == []


def test_lines_of_onbeat_itself_are_not_the_handlers(log: ListLog) -> None:
    logging.getLogger("onbeat.telemetry").error("ours")
    logging.getLogger("onbeat").error("ours")
    logging.getLogger("onbeatable").error("theirs")
    assert log.texts == ["theirs"]


def test_an_error_has_its_traceback(log: ListLog, shop: logging.Logger) -> None:
    try:
        fail()
    except ValueError:
        shop.exception("no mail")
    (text,) = log.texts
    assert text.startswith("no mail\nTraceback")
    assert text.endswith("ValueError: broke")


def test_structlog_passes_its_fields(log: ListLog) -> None:
    from onbeat.telemetry.log import route_structlog  # noqa: PLC0415  changes a setting of others

    before = structlog.get_config()
    route_structlog()
    logging.getLogger("books").setLevel(logging.INFO)
    try:
        structlog.get_logger("books").info("closed", month="2026-10", total=3)
    finally:
        structlog.configure(**before)
    (entry,) = log.entries
    assert (entry.text, entry.fields) == ("closed", {"month": "2026-10", "total": 3})


def a_context() -> Context:
    return Context(UnleasedRun(a_job()))


def test_the_log_of_a_context_is_kept_where_the_program_prints_nothing(log: ListLog) -> None:
    assert not logging.getLogger("onbeat.handler").isEnabledFor(logging.INFO)
    context = a_context()
    assert context.log.isEnabledFor(logging.INFO)
    context.log.info("sent %d", 3, extra={"order": 7})
    context.log.debug("too low")
    try:
        fail()
    except ValueError as error:
        context.log.info("no mail", exc_info=True)
        context.log.info("none", exc_info=error)
    first, *failed = log.entries
    assert (first.text, first.logger, first.fields) == ("sent 3", "onbeat.handler", {"order": 7})
    assert all(entry.text.endswith("ValueError: broke") for entry in failed)
    assert len(failed) == 2


def test_a_printed_line_of_a_context_is_kept_once_and_names_its_caller(
    log: ListLog, caplog: pytest.LogCaptureFixture
) -> None:
    # Not by its name: structlog gives new loggers a class that looks for callers in its own way.
    own = logging.Logger("own", logging.INFO)  # noqa: LOG001  as just said
    own.parent = logging.getLogger()
    adapter = HandlerLogger(own)
    adapter.info("sent")
    adapter.log(logging.ERROR, "failed")
    assert log.texts == ["sent", "failed"]
    assert {record.filename for record in caplog.records} == {"test_handler_log.py"}


def test_a_context_without_a_log_prints_what_the_program_lets_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a_context().log.info("too low")
    a_context().log.warning("printed")
    assert caplog.messages == ["printed"]


def test_a_program_without_logging_still_prints_its_warnings(
    log: ListLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [INSTALLATION.handler])
    shop = logging.getLogger("shop.mail")
    shop.warning("printed once")
    shop.info("not printed")
    own = logging.StreamHandler(sys.stdout)
    monkeypatch.setattr(shop, "handlers", [own])
    shop.warning("printed elsewhere")
    printed = capsys.readouterr()
    assert (printed.err, printed.out) == ("printed once\n", "printed elsewhere\n")


def test_the_handler_is_there_while_one_of_its_users_is() -> None:
    root = logging.getLogger()
    INSTALLATION.attach()
    INSTALLATION.attach()
    INSTALLATION.detach()
    assert root.handlers.count(INSTALLATION.handler) == 1
    INSTALLATION.detach()
    assert INSTALLATION.handler not in root.handlers


def test_a_faulty_call_harms_nobody(
    log: ListLog, shop: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    told: list[Any] = []
    monkeypatch.setattr(INSTALLATION.handler, "handleError", told.append)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    shop.warning("%s", Faulty())
    shop.warning("sent", extra={"to": Faulty()})
    assert (len(told), log.entries) == (2, [])


def test_secrets_are_hidden(log: ListLog, shop: logging.Logger) -> None:
    url = "https://ada:pw@example.org/a?key=b"
    shop.warning("key is hunter22, see %s", url, extra={"password": "x", "n": {"token": "y"}})
    clean = cleaner(["hunter22"])(log.entries[0])
    assert clean.text == "key is ***, see https://***@example.org/a?***"
    assert clean.fields == {"password": "***", "n": {"token": "***"}}
