"""Calls that come after one another, and what the later ones see of the earlier ones."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually
from onbeat import Context, Invalid, JobFailed, Onbeat, Retry, on_end, on_failure
from onbeat.app.call import Call
from onbeat.app.task import Task
from onbeat.model.job import JobState
from onbeat.model.limits import AFTER_MAX
from onbeat.testing.build import an_id

PATIENCE = 60
ONCE = Retry(attempts_max=1)


async def test_results_flow_from_call_to_call(beat: Onbeat) -> None:
    @beat.task
    def fetch() -> date:
        return date(2030, 1, 1)

    @beat.task
    async def left(context: Context) -> int:
        day: date = context.after["fetch"].result
        return day.year

    @beat.task(retry=ONCE)
    def right() -> int:
        raise ValueError("of its own")

    @beat.task
    def join(context: Context) -> list[str]:
        bad = context.after["bad"]
        assert bad.error is not None
        assert bad.error.endswith("ValueError: of its own")
        known = [*context.after, context.after[bad.id].state.value]
        return [*known, str(context.after["left"].result), str(bad.result)]

    first = fetch.call()
    good, bad = left.options(after=first).call(), right.options(after=first, name="bad").call()
    last = join.options(after=[good, on_end(bad)]).call()
    async with beat:
        jobs = await beat.asend([last, bad, good, first])
        answer = await jobs[0].aresult(PATIENCE)
    assert answer == ["left", "bad", "failed", "2030", "None"]


async def test_an_edge_that_cannot_be_met_cancels(beat: Onbeat) -> None:
    @beat.task
    def work() -> str:
        return "done"

    first = work.call()
    async with beat:
        jobs = await beat.asend([first, work.options(after=on_failure(first)).call()])
        with pytest.raises(JobFailed, match="it waited for succeeded"):
            await jobs[1].aresult(PATIENCE)


async def test_a_call_comes_after_sent_jobs(beat: Onbeat) -> None:
    @beat.task
    def work(context: Context) -> list[str]:
        return [*context.after]

    async with beat:
        first = await work.options(name="first").asend()
        await first.aresult(PATIENCE)
        for other in (first, first.id, on_end(first), (first,), [on_end(first.id)]):
            later = await work.options(after=other).asend()
            assert await later.aresult(PATIENCE) == ["first"]


async def test_a_call_comes_after_others_by_name(beat: Onbeat) -> None:
    @beat.task(retry=ONCE)
    def work(context: Context) -> list[str]:
        if not context.after:
            raise ValueError("the first one fails")
        return [*context.after]

    calls = [
        work.options(after=["second", on_end("first")], name="third").call(),
        work.options(after="first", on="failure", name="second").call(),
        work.options(name="first").call(),
    ]
    async with beat:
        jobs = await beat.asend(calls)
        assert await jobs[0].aresult(PATIENCE) == ["second", "first"]
        assert await jobs[1].aresult(PATIENCE) == ["first"]


async def test_the_end_that_is_needed_is_chosen_apart_from_what_it_comes_after(
    beat: Onbeat,
) -> None:
    @beat.task(retry=ONCE)
    def work(context: Context) -> list[str]:
        if not context.after:
            raise ValueError("the first one fails")
        return [*context.after]

    first = work.options(name="first").call()
    late = work.options(after=first)
    calls = [
        first,
        late.call().with_options(on="failure"),
        late.options(on="failure").options(queue="other", on="end").call(),
        late.options(on="failure").options(after=["first"]).call(),
        work.options(after=first, on="failure").options(queue="other").call(),
    ]
    async with beat:
        jobs = await beat.asend(calls)
        assert [await job.aresult(PATIENCE) for job in jobs[1:]] == [["first"]] * 4
    edges = [call.options.awaited[0].on for call in calls[1:]]
    assert edges == ["failure", "end", "failure", "failure"]


def test_an_end_of_nothing_is_refused(beat: Onbeat) -> None:
    @beat.task
    def work() -> None: ...

    with pytest.raises(Invalid, match="give after too") as caught:
        work.options(on="failure")
    assert caught.value.field == "on"
    late: Task[..., Any, Any] = work.options(after="first")
    with pytest.raises(Invalid, match="give after too"):
        late.options(after=[], on="failure")


def test_an_unknown_name_is_refused(beat: Onbeat) -> None:
    @beat.task(retry=ONCE)
    def work() -> int:
        return 1

    @beat.task(retry=ONCE)
    def send() -> Iterator[Call[Any]]:
        yield work.options(after="frist").call()

    call = work.options(after="frist").call()
    for calls in ([call], [work.options(name="first").call(), call]):
        with pytest.raises(Invalid, match="no job of this request is named 'frist'"):
            beat.send(calls)
    with beat.started(), pytest.raises(JobFailed, match="no job of this request is named 'frist'"):
        send.send().result(PATIENCE)


def test_what_is_not_sent_together_is_refused(beat: Onbeat) -> None:
    @beat.task
    def work() -> int:
        return 1

    first = work.call()
    second = work.options(after=first).call()
    with pytest.raises(Invalid, match="not sent yet"):
        beat.send(second)
    with pytest.raises(Invalid, match="not in the list"):
        beat.send([second])
    with pytest.raises(Invalid, match="in the list twice"):
        beat.send([first, first, second])
    with pytest.raises(Invalid, match="both named 'a'"):
        beat.send(
            [work.options(name="a").call(), work.options(name="a", after=first).call(), first]
        )


@pytest.mark.parametrize("after", [3, [None], "", ["a\nb"], "a" * 1_000, [object()]])
def test_what_is_no_job_is_refused(beat: Onbeat, after: Any) -> None:
    @beat.task
    def work() -> None: ...

    with pytest.raises(Invalid) as caught:
        work.options(after=after)
    assert caught.value.field == "after"


def test_too_many_others_are_refused(beat: Onbeat) -> None:
    @beat.task
    def work() -> None: ...

    with pytest.raises(Invalid, match=f"at most {AFTER_MAX}"):
        work.options(after=[an_id() for _ in range(AFTER_MAX + 1)])


def test_many_calls_of_one_task_get_names_of_their_own(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")

    @beat.task("shop.work")
    def work() -> None: ...

    chain: list[Call[None]] = [work.call()]
    for _ in range(3):
        chain.append(work.options(after=chain[-1]).call())
    with beat:
        jobs = beat.send(chain)
        assert [job.info().name for job in jobs] == ["work", "work-2", "work-3", None]


async def test_a_service_stores_a_flow(service: str) -> None:
    beat = Onbeat(service)

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    @beat.task("fail")
    async def fail() -> None: ...

    bad = fail.call()
    repair = add.options(after=on_failure(bad), name="repair").call(1, 2)
    lost = add.options(after=[repair, bad]).call(3, 4)
    jobs = await beat.asend([lost, repair, bad])
    assert await jobs[1].aresult(PATIENCE) == 3
    with pytest.raises(JobFailed, match=f"job {jobs[2].id} it waited for failed"):
        await jobs[0].aresult(PATIENCE)
    assert (await jobs[1].ainfo()).name == "repair"
    await beat.aclose()


# Groups


async def test_a_job_waits_for_all_that_a_distributor_sends(beat: Onbeat) -> None:
    done: list[int] = []

    @beat.task
    def bill(number: int) -> None:
        done.append(number)

    @beat.task
    def close(month: str) -> str:
        return f"{month}: {len(done)}"

    @beat.task
    def archive(context: Context) -> str:
        return f"archived {context.after['close'].result}"

    @beat.task
    def month() -> Iterator[Call[Any]]:
        last = close.options(after="sent", on="end", name="close").call("May")
        yield last
        yield archive.options(after=last).call()
        for number in range(20):
            yield bill.call(number)

    async with beat:
        sender = await month.asend()
        await sender.aresult(PATIENCE)
        flow = await beat.flows.ashow(sender.id, limit=100)
        assert flow.counts.total == 21
        await eventually_flow(beat, sender.id, JobState.SUCCEEDED)
        flow = await beat.flows.ashow(sender.id, limit=100)
        results = {job.name: job.result for job in flow.jobs if job.name or job.after}
        assert results == {"close": "May: 20", None: "archived May: 20"}
        assert {edge.after for edge in flow.edges} >= {"sent"}
        assert flow.jobs[0].id == sender.id
    assert sorted(done) == list(range(20))


async def eventually_flow(beat: Onbeat, id: str, state: JobState) -> None:
    async def ended() -> bool:
        return (await beat.flows.ashow(id, limit=0)).state is state

    await eventually(ended, f"the flow is {state}")


async def test_a_call_that_is_yielded_comes_after_an_earlier_one_by_name(beat: Onbeat) -> None:
    @beat.task(retry=ONCE)
    def work(context: Context) -> list[str]:
        if not context.after:
            raise ValueError("the first one fails")
        return [*context.after]

    @beat.task
    def send() -> Iterator[Call[Any]]:
        yield work.options(name="first").call()
        yield work.options(name="second", after="first", on="failure").call()
        yield work.options(name="third", after=["second", on_end("first")]).call()

    async with beat:
        sender = await send.asend()
        await sender.aresult(PATIENCE)

        async def ended() -> dict[str | None, Any]:
            flow = await beat.flows.ashow(sender.id)
            found = {job.name: job.result for job in flow.jobs}
            return found if found.get("third") else {}

        results = await eventually(ended, "the last one has run")
    assert (results["second"], results["third"]) == (["first"], ["second", "first"])


def test_a_distributor_names_only_calls_that_it_yielded(beat: Onbeat) -> None:
    @beat.task
    def work() -> int:
        return 1

    @beat.task(retry=ONCE)
    def send() -> Iterator[Call[Any]]:
        yield work.options(after=work.call()).call()

    with beat.started(), pytest.raises(JobFailed, match="is not one of the last 100 calls"):
        send.send().result(PATIENCE)


async def test_a_batch_has_counts_and_what_follows(beat: Onbeat) -> None:
    @beat.task(retry=ONCE)
    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    @beat.task
    def tell(text: str) -> str:
        return text

    async with beat:
        good = await beat.abatch(
            [work.call(number) for number in range(3)],
            then=tell.call("done"),
            on_failure=tell.call("bad"),
        )
        bad = await beat.abatch([work.call(3), work.call(4)], on_failure=tell.call("bad"))
        assert good.then is not None
        assert good.on_failure is not None
        assert bad.on_failure is not None
        assert await good.then.aresult(PATIENCE) == "done"
        assert await bad.on_failure.aresult(PATIENCE) == "bad"
        with pytest.raises(JobFailed, match="it waited for succeeded"):
            await good.on_failure.aresult(PATIENCE)
        assert (await bad.acounts()).failed == 1
        progress = await good.aprogress()
        assert (progress.done, progress.total) == (3, 3)
        assert await bad.astate() is JobState.FAILED
        assert [job.created for job in good.jobs] == [True] * 3


def test_a_batch_takes_any_iterable_of_calls_and_nothing_else(beat: Onbeat) -> None:
    @beat.task
    def work(number: int) -> int:
        return number

    batch = beat.batch((work.call(number) for number in range(3)), then=work.call(3))
    assert len(batch.jobs) == 3
    task: Any = work
    for given in ({"then": task}, {"on_failure": task}):
        with pytest.raises(TypeError, match="is not a call; write TASK"):
            beat.batch([work.call(1)], **given)
    with pytest.raises(TypeError, match="is not a call; write TASK"):
        beat.batch([task])


def test_a_batch_of_nothing_is_refused(beat: Onbeat) -> None:
    with pytest.raises(Invalid, match="at least one call"):
        beat.batch([])


def test_a_flow_is_cancelled_and_tried_again(beat: Onbeat) -> None:
    @beat.task(retry=ONCE)
    def work() -> str:
        return "done"

    first = work.options(delay="1h").call()
    batch = beat.batch([first, work.options(after=first).call()], then=work.call())
    assert batch.then is not None
    assert batch.counts().waiting == 2
    batch.cancel("enough")
    assert batch.then.info().reason == "enough"
    assert batch.counts().cancelled == 2
    batch.retry()
    assert batch.counts().waiting == 2
    beat.jobs.reschedule(batch.jobs[0].id, delay="0s")  # it keeps its own time
    with beat.started():
        assert batch.then.result(PATIENCE) == "done"
        assert batch.state() is JobState.SUCCEEDED


async def test_a_batch_at_a_service(service: str) -> None:
    beat = Onbeat(service)

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    batch = await beat.abatch([add.call(1, n) for n in range(3)], then=add.call(3, 4))
    assert batch.then is not None
    assert await batch.then.aresult(PATIENCE) == 7
    assert (await batch.acounts()).succeeded == 3
    plain = await beat.abatch([add.call(1, 2)])
    assert await plain.jobs[0].aresult(PATIENCE) == 3
    assert (await plain.acounts()).total == 1
    await beat.aclose()
