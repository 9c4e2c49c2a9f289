"""H1, H2: no spelling of a closed address is called, whichever way a job comes to it."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.outcome import Failed, Succeeded
from onbeat.rules.ip_policy import parse_allowed
from onbeat.rules.urls import checked_url, refusal_at_creation
from targets.runs import FakeNames, a_run, a_runner
from targets.scripted_http_server import ScriptedServer, says
from targets.test_callback_policy import serving
from targets.test_ssrf_guard import CLOSED


def test_the_matrix_is_as_large_as_it_says() -> None:
    assert len(CLOSED) >= 300
    assert len({host for host, _ in CLOSED}) == len(CLOSED)


@pytest.mark.parametrize("host", [host for host, _ in CLOSED])
def test_none_passes_creation_if_it_is_an_address(host: str) -> None:
    """What is left to the connection is only what no reader takes for an address."""
    try:
        url = checked_url(f"http://{host}:8080/x")
    except Invalid:
        return
    assert refusal_at_creation(url, private_allowed=False) is not None


async def each_is_refused(attempt: Callable[[str, str], Awaitable[object]]) -> None:
    for host, address in CLOSED:
        outcome = await attempt(host, address)
        assert isinstance(outcome, Failed), (host, address)
        assert not outcome.retryable, (host, outcome.error)


async def test_none_is_called_by_a_run() -> None:
    async with ScriptedServer() as inside:

        async def loopback(_host: str, _port: int) -> list[str]:
            return ["127.0.0.1"]

        async with a_runner(private_allowed=False, lookup=loopback) as runner:

            async def attempt(host: str, _address: str) -> object:
                return await runner.run(a_run(f"http://{host}:{inside.port}/x"))

            await each_is_refused(attempt)
        assert inside.connections == 0


async def test_none_is_called_by_a_retry_of_a_name_that_was_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first attempt may call the name; at the second one it leads to a closed address."""
    monkeypatch.setattr("onbeat.targets.http.LOOKUP_SECONDS_MAX", 0)
    asked: list[str] = []
    answers: dict[str, list[str]] = {}

    async def lookup(host: str, _port: int) -> list[str]:
        asked.append(host)
        return [answers[host].pop(0)]

    # A metadata service is closed also to those who may call private addresses.
    closed_for_all = {address for _, address in CLOSED} & {"169.254.169.254", "100.100.100.200"}
    assert closed_for_all
    closing = says("200 OK", b"", "Connection: close")
    async with ScriptedServer(closing) as sink, a_runner(lookup=lookup) as runner:
        for number, address in enumerate(sorted(closed_for_all)):
            host = f"h{number}.example"
            answers[host] = ["127.0.0.1", address]
            url = sink.url(host=host)
            first, second = await runner.run(a_run(url)), await runner.run(a_run(url))
            assert isinstance(first, Succeeded)
            assert isinstance(second, Failed)
            assert not second.retryable
    assert len(asked) == 2 * len(closed_for_all)


async def test_none_is_called_by_a_retry_of_any_address() -> None:
    """An address is judged anew at each attempt: a refusal is not a matter of the first one."""
    names = FakeNames(
        **{f"h{number}_example": [[address]] for number, (_, address) in enumerate(CLOSED)}
    )
    async with a_runner(private_allowed=False, lookup=names) as runner:
        for number in range(len(CLOSED)):
            run = a_run(f"http://h{number}.example/")
            for attempt in (1, 2):
                run.job = replace(run.job, attempt=attempt)
                outcome = await runner.run(run)
                assert isinstance(outcome, Failed)
                assert not outcome.retryable


@pytest.mark.parametrize("status", [302, 307])
async def test_none_is_called_by_a_redirect(status: int) -> None:
    """The endpoint itself may be called, by its name, and its target follows redirects."""

    async def lookup(host: str, _port: int) -> list[str]:
        # What no reader takes for an address leads to a server that would note the call.
        return ["127.0.0.1"]

    async with (
        ScriptedServer() as inside,
        serving() as endpoint,
        a_runner(
            lookup=lookup, private_allowed=False, allowed=parse_allowed(("hook.test",))
        ) as runner,
    ):
        first = f"http://hook.test:{endpoint.port}/{status}?to="

        async def attempt(host: str, _address: str) -> object:
            place = quote(f"http://{host}:{inside.port}/x", safe="")
            return await runner.run(a_run(first + place, redirects=3))

        await each_is_refused(attempt)
        assert len(endpoint.seen) == len(CLOSED), "each was led on from the endpoint"
        assert inside.connections == 0
