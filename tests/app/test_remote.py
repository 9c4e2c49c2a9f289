"""An Onbeat that is a client of a service elsewhere; the service is real, in this process."""

import asyncio
from typing import Any

import msgspec
import pytest

from conditions import eventually
from onbeat import (
    Condition,
    Invalid,
    JobFailed,
    Misconfigured,
    NotFound,
    Onbeat,
    Retry,
    Unavailable,
    daily,
    every,
    http,
)
from transports.proxy import Proxy

BOOKS = {"overlap": "skip", "grace": "1h"}


@pytest.fixture
def client(service: Any) -> Any:
    return Onbeat(service)


@pytest.fixture
def add(client: Any) -> Any:
    @client.task("add")
    async def add(a: int, b: int) -> int: ...

    return add


async def test_a_job_is_sent_runs_there_and_its_result_comes_back(add: Any) -> None:
    job = await add.asend(2, b=3)

    assert job.created
    assert await job.aresult(60) == 5
    assert [attempt.outcome for attempt in (await job.ainfo()).attempts] == ["succeeded"]


async def test_many_jobs_go_in_one_request_and_keep_their_options(client: Any, add: Any) -> None:
    later = add.options(delay="1h", priority=3, unique="u", labels={"a": "b"}, timeout="5s")

    first, second = await client.asend([later.call(1, 2), later.call(1, 2)])

    assert (first.created, second.created, second.id) == (True, False, first.id)
    state = await first.ainfo()
    assert (state.priority, state.unique, state.labels) == (3, "u", {"a": "b"})


async def test_what_must_hold_goes_along(client: Any, add: Any) -> None:
    asked = Condition("answer == 3", ask=add.call(1, 2), otherwise="5m")
    window = "MON-SUN 00:00-24:00 UTC"
    checked = add.options(condition=asked, window=window, expires_in="1h")
    job = await checked.asend(2, b=3)
    later = await checked.options(sensitive=True, delay="1h").asend(2, b=3)

    info = await job.ainfo()
    assert (info.condition.text, info.condition.otherwise) == ("answer == 3", "5m")
    assert (info.window[0].days, info.window[0].end) == ("MON-SUN", "24:00")
    await job.aresult(30)
    assert (await job.ainfo()).state == "succeeded"
    hidden = await later.ainfo()
    assert hidden.condition.ask.args == hidden.target.args == ["…"]


async def test_a_failure_there_is_told_here(client: Any) -> None:
    @client.task("fail", retry=Retry(1))
    async def fail() -> None: ...

    job = await fail.asend()

    with pytest.raises(JobFailed, match="ValueError: of its own"):
        await job.aresult(60)


async def test_schedules_are_kept_there_by_key(client: Any, add: Any) -> None:
    rule = daily("03:00", tz="Europe/Berlin")
    id = await client.schedules.aput("books", rule, add.call(1, 2), **BOOKS)

    assert await client.schedules.aput("books", rule, add.call(1, 2), **BOOKS) == id
    shown = await client.schedules.aget("books")
    assert (shown.id, shown.overlap, shown.grace) == (id, "skip", "1h")
    await client.schedules.apause("books")
    assert (await client.schedules.aget("books")).status == "paused"
    await client.schedules.adelete("books")
    with pytest.raises(NotFound, match="books"):
        await client.schedules.aget("books")


async def test_what_a_store_refuses_is_refused_for_a_service_too(client: Any) -> None:
    for limit in (0, 5_000):
        with pytest.raises(Invalid) as caught:
            await client.schedules.alist(limit=limit)
        assert caught.value.field == "limit"
    with pytest.raises(Invalid, match="name must not contain /"):
        await client.queues.apause("a/b")
    for key in (".", ".."):
        with pytest.raises(Invalid, match=r"key must not be \. or \.\."):
            await client.schedules.aput(key, every("1h"), http("GET", "https://example.org/"))


async def test_reactions_are_kept_there(client: Any, add: Any) -> None:
    gather = {"until": daily("03:00", tz="Europe/Berlin"), "most": 7}
    policies = {"on": ["a", {"type": "b.*", "source": "/x"}], "gather": gather, "delay": "5s"}
    await client.schedules.aput("on", None, add.call(1, 2), cancel_on="c", **policies)
    answer = msgspec.json.encode(await client.schedules.aget("on"))
    shown = msgspec.json.decode(answer)
    assert shown["on"] == [{"type": "a"}, {"type": "b.*", "source": "/x"}]
    assert (shown["cancel_on"], shown["delay"]) == ({"type": "c"}, "5s")
    assert shown["gather"]["until"]["timezone"] == "Europe/Berlin"
    assert shown["gather"]["most"] == 7
    both = daily("03:00").excluding(daily("04:00"))
    with pytest.raises(Invalid, match="cannot be sent to a service"):
        await client.schedules.aput("on", None, add.call(1, 2), on="a", gather={"until": both})


async def test_a_function_of_time_cannot_be_sent(client: Any, add: Any) -> None:
    with pytest.raises(Invalid, match="cannot be sent to a service"):
        await client.schedules.aput("odd", lambda after: after, add.call(1, 2))


async def test_it_runs_nothing_itself(client: Any) -> None:
    with pytest.raises(Misconfigured, match="keeps and runs everything"):
        await client.start()


async def test_a_service_that_is_not_there_is_unavailable() -> None:
    gone = Onbeat("http://127.0.0.1:9")

    @gone.task("t")
    def nothing() -> None: ...

    with pytest.raises(Unavailable, match="is `onbeat up` running there"):
        await gone.schedules.aput("x", every("1h"), nothing.call())


@pytest.mark.parametrize("url", ["http://", "https:///api"])
def test_an_address_must_name_a_host(url: str) -> None:
    with pytest.raises(Misconfigured, match="must be a URL like"):
        Onbeat(url)


async def test_events_are_published_listed_and_shown_there(client: Any) -> None:
    first = await client.events.apublish("order.paid", {"order": 7}, id="1", source="/shop")
    again = await client.events.apublish("order.paid", {"order": 8}, id="1", source="/shop")
    own = await client.events.apublish("order.void", extensions={"tenant": "a"}, subject="order")
    assert (first.created, again.created, own.created) == (True, False, True)
    assert [one.id for one in await client.events.alist()] == [own.id, "1"]
    assert [one.id for one in await client.events.alist(type="order.p*", source="/shop")] == ["1"]
    shown = await client.events.ashow(own.id)
    assert (shown.extensions, shown.subject) == ({"tenant": "a"}, "order")
    await client.events.areplay(own.id, source=shown.source)
    with pytest.raises(NotFound, match="Event not found"):
        await client.events.ashow("nope")
    with pytest.raises(Invalid, match="source must be a URI reference"):
        await client.events.apublish("a", source="a b")


async def test_requests_of_every_thread_and_loop_share_their_connections(service: Any) -> None:
    async with CountingProxy("127.0.0.1", int(service.rpartition(":")[2])) as proxy:
        client = Onbeat(f"http://{proxy.address}")

        @client.task("add")
        async def add(a: int, b: int) -> int: ...

        assert await (await add.asend(1, 2)).aresult(60) == 3
        for _ in range(3):
            await asyncio.to_thread(asyncio.run, client.jobs.alist())
            await asyncio.to_thread(client.jobs.list)
        assert proxy.taken == 1

        await client.aclose()
        await client.jobs.alist()
        assert proxy.taken == 2
        await asyncio.to_thread(client.close)


async def test_a_request_that_is_cancelled_ends_alone(service: Any) -> None:
    async with CountingProxy("127.0.0.1", int(service.rpartition(":")[2])) as proxy:
        client = Onbeat(f"http://{proxy.address}")
        proxy.silence()
        asking = asyncio.create_task(client.jobs.alist())
        await eventually(lambda: proxy.taken == 1, "it is under way")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        proxy.pass_all()
        assert list(await client.jobs.alist()) == []
        await client.aclose()


class CountingProxy(Proxy):
    taken = 0

    async def carry(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self.taken += 1
        await super().carry(near_in, near_out)
