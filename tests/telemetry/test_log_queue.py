"""Log destinations beyond this machine, each against a real server."""

import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from conditions import eventually_here
from free_ports import free_port
from onbeat.model.errors import Misconfigured
from onbeat.telemetry import log_queue
from onbeat.telemetry.log import configure_logging
from telemetry.test_log import Options, _logging_as_before  # noqa: F401  an automatic fixture
from transports.sqs.server import moto

log = logging.getLogger("shop")


class Collector:
    """A TCP server that keeps the lines it receives."""

    def __init__(self, port: int = 0) -> None:
        self.server = socket.create_server(("127.0.0.1", port), reuse_port=False)
        self.port = self.server.getsockname()[1]
        self.lines: list[dict[str, Any]] = []
        self.connections: list[socket.socket] = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection: socket.socket) -> None:
        with connection.makefile(encoding="utf-8") as lines:
            for line in lines:
                self.lines.append(json.loads(line))

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        for connection in self.connections:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def events(self) -> list[str]:
        return [line["event"] for line in list(self.lines)]


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    running = Collector(port)
    try:
        yield running
    finally:
        running.close()


def send_to(port: int) -> log_queue.QueueHandler:
    configure_logging(Options(destinations=(f"tcp://127.0.0.1:{port}",)), secrets=["hunter22"])
    (handler,) = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, log_queue.QueueHandler)
    ]
    return handler


def test_lines_arrive_as_json_over_tcp_without_secrets() -> None:
    with collector() as server:
        send_to(server.port)
        log.warning("paid %s", "hunter22", extra={"run_id": 7})
        eventually_here(lambda: server.lines, "the line has arrived")
        (line,) = server.lines
    assert line["event"] == "paid ***"
    assert (line["level"], line["logger"], line["run_id"]) == ("warning", "shop", 7)


def test_a_server_that_comes_back_gets_the_lines_of_its_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_queue, "RETRY_SECONDS", 0.01)
    with collector() as server:
        send_to(server.port)
        log.info("one")
        eventually_here(lambda: server.events() == ["one"], "the line has arrived")
    log.info("two")
    with collector(server.port) as again:
        log.info("three")
        eventually_here(lambda: {"two", "three"} <= {*again.events()}, "the lines have arrived")


def test_beyond_a_bound_lines_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log_queue, "LINES_MAX", 10)
    port = free_port()
    handler = send_to(port)
    log.info("first")
    eventually_here(
        lambda: any("log.unreachable" in line.msg for line in list(handler.waiting)),
        "the outage was reported",
    )
    for number in range(30):
        log.info("line", extra={"number": number})
    assert len(handler.waiting) == 10
    dropped = handler.dropped
    assert dropped >= 20
    with collector(port) as server:
        eventually_here(lambda: "log.lines_dropped" in server.events(), "the count has arrived")
        (report,) = [line for line in server.lines if line["event"] == "log.lines_dropped"]
    assert report["lines"] == dropped
    assert report["destination"] == f"tcp://127.0.0.1:{port}"
    assert server.events()[:2] == ["first", "log.unreachable"]


def test_long_lines_are_bounded_by_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(log_queue, "CHARS_MAX", 4_000)
    port = free_port()
    handler = send_to(port)
    for size in (1_000, 5_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000):
        log.info("x" * size)
        assert handler.chars <= 4_000
    with collector(port) as server:
        # The sender may take lines and their count at any moment, so the reports hold the sum.
        eventually_here(lambda: all_arrived(server, 9), "each line has arrived or was counted")
    assert dropped_lines(server) >= 2
    assert "x" * 1_000 in server.events()
    assert "x" * 5_000 not in server.events()


def dropped_lines(server: Collector) -> int:
    return sum(line["lines"] for line in server.lines if line["event"] == "log.lines_dropped")


def all_arrived(server: Collector, lines: int) -> bool:
    return server.events().count("x" * 1_000) + dropped_lines(server) >= lines


def test_the_end_of_the_process_sends_what_waits_and_does_not_wait_for_a_server_that_is_away() -> (
    None
):
    with collector() as server:
        handler = send_to(server.port)
        for number in range(1_000):
            log.info("line", extra={"number": number})
        handler.close()
        eventually_here(lambda: len(server.lines) == 1_000, "all lines have arrived")
    away = send_to(free_port())
    log.info("never")
    away.close()
    assert not away.thread.is_alive()


def test_a_line_that_cannot_be_formatted_harms_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with collector() as server:
        handler = send_to(server.port)
        handler.handle(log.makeRecord("shop", logging.INFO, "", 0, "wrong %d", ("text",), None))
        log.info("right")
        eventually_here(lambda: server.events() == ["right"], "the other line has arrived")
    assert "wrong %d" in capsys.readouterr().err


def test_lines_arrive_in_cloudwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "CLOUDWATCH_SECONDS", 0.1)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with moto() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        client = boto3.client("logs")

        def stored() -> list[dict[str, Any]]:
            try:
                answer = client.describe_log_streams(logGroupName="/shop/onbeat")
            except client.exceptions.ResourceNotFoundException:
                return []
            return [
                json.loads(event["message"])
                for stream in answer["logStreams"]
                for event in client.get_log_events(
                    logGroupName="/shop/onbeat", logStreamName=stream["logStreamName"]
                )["events"]
            ]

        configure_logging(Options(level="debug", destinations=("cloudwatch:/shop/onbeat",)))
        log.info("paid", extra={"run_id": 7})
        eventually_here(
            lambda: any(line["event"] == "paid" and line["run_id"] == 7 for line in stored()),
            "the line has arrived",
            within=60,
        )
        lines = stored()
        logging.getLogger().setLevel(logging.WARNING)
        close_network_handlers()
    assert not {line["logger"].partition(".")[0] for line in lines} & log_queue.SENDERS


def close_network_handlers() -> None:
    for handler in logging.getLogger().handlers[:]:
        if isinstance(handler, log_queue.QueueHandler):
            handler.close()


def test_cloudwatch_without_a_region_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(Misconfigured, match=r"log\.destinations: cloudwatch:g: .*region") as raised:
        configure_logging(Options(destinations=("cloudwatch:g",)))
    assert raised.value.key == "log.destinations"


def test_cloudwatch_without_its_package_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "watchtower", None)
    with pytest.raises(Misconfigured, match=r"pip install 'onbeat\[cloudwatch\]'"):
        configure_logging(Options(destinations=("cloudwatch:g",)))
