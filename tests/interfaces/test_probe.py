"""A port with the metrics and the health of one process, whatever its roles."""

import asyncio
import contextlib
import json
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from conditions import PATIENCE, eventually, eventually_here
from free_ports import free_port
from interfaces.up import Up, up
from onbeat import Onbeat, Options
from onbeat.app.probe import CONNECTIONS_MAX, is_local
from onbeat.model.errors import Misconfigured
from onbeat.telemetry.composite import NullTelemetry

PROGRAM = """
from onbeat import Onbeat

beat = Onbeat("sqlite:///onbeat.db")

@beat.task("add")
def add(a: int, b: int) -> int:
    return a + b

@beat.schedule(__import__("onbeat").every("1s"), key="often")
@beat.task("often")
def often() -> None:
    pass
"""


def get(
    port: int, path: str, host: str = "127.0.0.1", accept: str = "text/plain"
) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": f"{host}:{port}", "Accept": accept})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def ports(service: Up) -> list[int]:
    return [int(line["address"].rpartition(":")[2]) for line in service.events("metrics")]


def test_a_process_without_the_api_shows_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    roles = ("--roles", "planner,dispatcher,worker,maintenance")
    with up(tmp_path, "app.py", *roles, ONBEAT_METRICS__PORT="0") as service:
        (port,) = ports(service)
        counted = 'onbeat_job_outcomes_total{outcome="succeeded",queue="default",task="often"}'
        eventually_here(lambda: counted in get(port, "/metrics")[1], "a job is counted")
        assert get(port, "/healthz") == (200, '{"status":"ok"}')
        status, text = get(port, "/readyz")
        assert (status, json.loads(text)["checks"]["store"]) == (200, "ok")
        assert get(port, "/api/jobs")[0] == 404
        text = get(port, "/metrics", accept="application/openmetrics-text")[1]
        families = {family.name for family in text_string_to_metric_families(text)}
        assert "onbeat_job_outcomes" in families


def test_clients_that_never_end_their_headers_hold_nobody_up(tmp_path: Path) -> None:
    with up(tmp_path, ONBEAT_METRICS__PORT="0") as service, contextlib.ExitStack() as stack:
        (port,) = ports(service)
        slow = [stack.enter_context(begun_request(port)) for _ in range(CONNECTIONS_MAX)]
        for _ in range(3):
            assert get(port, "/healthz") == (200, '{"status":"ok"}')
        for client in slow:
            assert b" 200 " not in read_to_end(client)


def begun_request(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    return client


def read_to_end(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: client.recv(4096), b""))
    return b""


def test_only_own_names_are_answered_on_loopback(tmp_path: Path) -> None:
    with up(tmp_path, ONBEAT_METRICS__PORT="0") as service:
        (port,) = ports(service)
        assert get(port, "/metrics", host="evil.example.com")[0] == 400
        assert get(port, "/metrics", host="localhost")[0] == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("web", False)],
)
def test_which_addresses_are_local(host: str, local: bool) -> None:
    assert is_local(host) is local


async def fetched(port: int, path: str) -> tuple[int, str]:
    """As a scraper does, from a thread: the loop of the test runs the program."""
    return await asyncio.to_thread(get, port, path)


async def test_a_program_of_its_own_opens_the_port_while_it_runs(tmp_path: Path) -> None:
    port = free_port()
    beat = Onbeat(f"sqlite:///{tmp_path}/own.db", options=Options(metrics_port=port))

    @beat.task("add")
    def add(a: int, b: int) -> int:
        return a + b

    async with beat:
        assert await (await add.asend(1, 2)).aresult() == 3
        counted = 'onbeat_job_outcomes_total{outcome="succeeded",queue="default",task="add"} 1.0'

        async def is_counted() -> bool:
            return counted in (await fetched(port, "/metrics"))[1]

        await eventually(is_counted, "the job is counted")
        assert (await fetched(port, "/readyz"))[0] == 200
    with pytest.raises(ConnectionRefusedError):
        get(port, "/healthz")


async def test_a_port_that_is_taken_is_told_at_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        beat = Onbeat(f"sqlite:///{tmp_path}/own.db", options=Options(metrics_port=port))
        with pytest.raises(Misconfigured, match=f"cannot listen on 127.0.0.1:{port}"):
            await beat.start()


async def test_own_telemetry_has_no_metrics_to_show(tmp_path: Path) -> None:
    url, options = f"sqlite:///{tmp_path}/own.db", Options(metrics_port=0)
    beat = Onbeat(url, options=options, telemetry=NullTelemetry())
    with pytest.raises(Misconfigured, match="metrics_port"):
        await beat.start()
    await beat.aclose()
