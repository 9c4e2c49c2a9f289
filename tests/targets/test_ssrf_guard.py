"""No callback reaches an address that it must not, however it is spelled or looked up."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onbeat.model.outcome import Failed, Succeeded
from onbeat.rules.ip_policy import parse_allowed
from onbeat.targets.ssrf_guard import AddressGuard, AddressRefused, SystemLookup
from targets.runs import FakeNames, a_run, a_runner, outcome_at
from targets.scripted_http_server import ScriptedServer, says

TABLE = Path(__file__).parent / "spellings.tsv"
ROWS = [
    line.split("\t")
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
CLOSED = [(host, address) for host, address, who in ROWS if who != "public"]


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests in which every connection must be refused before it has a socket."""
    made = []
    judge = AddressGuard.socket_for

    def watch(guard: AddressGuard, info: tuple[Any, ...]) -> Any:
        made.append(judge(guard, info))
        return made[-1]

    monkeypatch.setattr(AddressGuard, "socket_for", watch)
    yield
    assert made == []


async def test_no_spelling_of_a_closed_address_is_connected_to(no_sockets: Any) -> None:
    async def loopback(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with a_runner(private_allowed=False, lookup=loopback) as runner:
        for host, _ in CLOSED:
            outcome = await runner.run(a_run(f"http://{host}:8080/x"))
            assert isinstance(outcome, Failed), host
            assert not outcome.retryable, (host, outcome.error)


async def test_no_name_that_leads_to_a_closed_address_is_connected_to(no_sockets: Any) -> None:
    names = FakeNames(
        **{f"h{number}_example": [[address]] for number, (_, address) in enumerate(CLOSED)}
    )
    async with a_runner(private_allowed=False, lookup=names) as runner:
        for number, (_, address) in enumerate(CLOSED):
            outcome = await runner.run(a_run(f"http://h{number}.example/"))
            assert isinstance(outcome, Failed)
            assert not outcome.retryable, address
            assert "was not sent: the host is a" in outcome.error
            assert address not in outcome.error


GOOD, BAD = "93.184.216.34", "127.0.0.1"


@pytest.mark.parametrize(
    "answers",
    [
        [GOOD, BAD],
        [BAD, GOOD],
        [GOOD, "10.0.0.1"],
        [GOOD, "::1"],
        ["2606:4700::1111", "fd00::1"],
        [GOOD, "169.254.169.254"],
        [GOOD, "fe80::1%eth0"],
        [GOOD, "::ffff:127.0.0.1"],
        [GOOD, "not an address"],
    ],
)
async def test_one_bad_answer_among_good_ones_refuses_the_host(
    no_sockets: Any, answers: list[str]
) -> None:
    outcome = await outcome_at(
        "http://mixed.example/", lookup=FakeNames(mixed_example=[answers]), private_allowed=False
    )
    assert isinstance(outcome, Failed)
    assert not outcome.retryable


async def test_a_name_that_turns_inside_between_two_connections_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rebinding: the name is harmless when it is looked at and not when it is called."""
    names = FakeNames(turns_example=[["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1"]])
    monkeypatch.setattr("onbeat.targets.http.LOOKUP_SECONDS_MAX", 0)
    closing = says("200 OK", b"", "Connection: close")
    async with ScriptedServer(closing) as sink, a_runner(lookup=names) as runner:
        url = sink.url(host="turns.example")
        outcomes = [await runner.run(a_run(url)) for _ in range(3)]
    assert [type(outcome) for outcome in outcomes] == [Succeeded, Failed, Succeeded]
    assert len(names.asked) == 3
    assert len(sink.received) == 2


async def test_a_cached_answer_was_judged_before_it_was_kept() -> None:
    names = FakeNames(turns_example=[["127.0.0.1"], ["169.254.169.254"]])
    closing = says("200 OK", b"", "Connection: close")
    async with ScriptedServer(closing) as sink, a_runner(lookup=names) as runner:
        url = sink.url(host="turns.example")
        outcomes = [await runner.run(a_run(url)) for _ in range(3)]
    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
    assert len(names.asked) == 1
    assert {each.lower["host"] for each in sink.received} == {f"turns.example:{sink.port}"}


async def test_many_attempts_at_a_refused_name_at_once_are_all_refused(no_sockets: Any) -> None:
    names = FakeNames(inside_example=[["10.0.0.1"]])
    async with a_runner(private_allowed=False, lookup=names) as runner:
        runs = [runner.run(a_run("http://inside.example/")) for _ in range(50)]
        outcomes = await asyncio.gather(*runs)
    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert not any(outcome.retryable for outcome in outcomes)


async def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    async with ScriptedServer() as sink:
        names = FakeNames(hook_example=[["127.0.0.1"]])
        outcome = await outcome_at(sink.url("/a", host="hook.example"), lookup=names)
    assert isinstance(outcome, Succeeded)
    assert sink.received[0].lower["host"] == f"hook.example:{sink.port}"


async def test_a_name_without_an_answer_may_have_one_later() -> None:
    for names in (FakeNames(), FakeNames(empty_example=[[]])):
        outcome = await outcome_at("http://empty.example/a", lookup=names)
        assert isinstance(outcome, Failed)
        assert outcome.retryable
        assert outcome.error.startswith("GET http://empty.example/a failed: ")


async def test_private_addresses_are_closed_by_default() -> None:
    async with ScriptedServer() as sink:
        outcome = await outcome_at(sink.url("/a"), private_allowed=False)
    assert outcome == Failed(
        f"GET {sink.url('/a')} was not sent: the host is a loopback address", retryable=False
    )
    assert sink.connections == 0


async def test_the_operator_opens_a_network() -> None:
    allowed = parse_allowed(["127.0.0.0/8"])
    async with ScriptedServer() as sink:
        outcome = await outcome_at(sink.url(), private_allowed=False, allowed=allowed)
    assert isinstance(outcome, Succeeded)


async def test_the_operator_opens_a_host_but_not_its_neighbours_nor_a_metadata_service() -> None:
    names = FakeNames(
        hooks_example=[["127.0.0.1"]],
        other_example=[["127.0.0.1"]],
        evil_example=[["169.254.169.254"]],
    )
    allowed = parse_allowed(["hooks.example", "evil.example"])
    guarded = a_runner(private_allowed=False, allowed=allowed, lookup=names)
    async with ScriptedServer() as sink, guarded as runner:
        for host in ("hooks.example", "HOOKS.example", "hooks.example."):
            assert isinstance(await runner.run(a_run(sink.url(host=host))), Succeeded)
        for host in ("other.example", "evil.example", "127.0.0.1"):
            assert isinstance(await runner.run(a_run(sink.url(host=host))), Failed)
    assert len(sink.received) == 3


async def test_a_redirect_to_the_inside_is_not_followed() -> None:
    async with ScriptedServer() as inside:
        redirect = says("307 Temporary Redirect", b"", f"Location: {inside.url()}")
        async with ScriptedServer(redirect) as sink:
            outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert inside.connections == 0


def test_the_guard_makes_no_socket_for_a_closed_address() -> None:
    guard = AddressGuard(parse_allowed([]), private_allowed=False)
    info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 80))
    with pytest.raises(AddressRefused, match="the host is a loopback address"):
        guard.socket_for(info)


async def test_the_system_resolves_names_on_threads_of_its_own() -> None:
    lookup = SystemLookup()
    try:
        assert "127.0.0.1" in await lookup("localhost", 80)
        with pytest.raises(OSError):
            await lookup("nowhere.invalid", 80)
    finally:
        lookup.close()


async def test_localhost_is_called_where_it_may_be() -> None:
    async with ScriptedServer() as sink:
        assert isinstance(await outcome_at(sink.url(host="localhost")), Succeeded)
        refused = await outcome_at(sink.url(host="localhost"), private_allowed=False)
    assert isinstance(refused, Failed)
    assert not refused.retryable
