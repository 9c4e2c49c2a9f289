"""What the breaker makes of real calls, one by one and through a whole outage."""

import asyncio
from asyncio.streams import StreamWriter
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from yarl import URL

from conditions import eventually
from engine.harness import RecordingTelemetry
from onbeat import Onbeat, http
from onbeat.model.event import EventCause
from onbeat.model.job import JobState
from onbeat.model.limits import EVENT_DEPTH_MAX
from onbeat.model.outcome import Cancelled, Failed, Lost, Released, Snoozed, Succeeded
from onbeat.rules.circuit_breaker import CALLS_MIN, HOLD_SECONDS_MAX, HOLD_SECONDS_MIN
from onbeat.rules.outages import TYPE as OUTAGE
from onbeat.rules.outages import Outage
from onbeat.targets.breaker import ENDPOINTS_MAX, Breakers, chance_of
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.http_request import endpoint_of
from targets.runs import CLOCK, LONG, a_run
from targets.scripted_http_server import (
    Received,
    ScriptedServer,
    break_off_in_body,
    hang_up,
    reset,
    says,
    silent,
)

DOWN = says("503 Service Unavailable")


class HandClock:
    """Both of its clocks are moved by hand, together."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return CLOCK.at + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class BreakerHarness:
    """A runner on a clock of its own, and what it told."""

    def __init__(self, **options: Any) -> None:
        self.clock = HandClock()
        self.told = RecordingTelemetry()
        options = {"timeout": LONG, "private_allowed": True, **options}
        self.outages: list[Outage] = []
        self.runner = HttpRunner(
            self.clock,
            HttpOptions(**options),
            telemetry=self.told,
            on_outage=self.outages.append,
        )

    async def __aenter__(self) -> Self:
        await self.runner.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.close()

    async def call(
        self, url: str, times: int = 1, job: Any = ()
    ) -> Succeeded | Failed | Snoozed | Cancelled | Lost | Released:
        """The outcome of the last of so many calls, none of which waits for another."""
        runs = [a_run(url, job=job) for _ in range(times)]
        return (await asyncio.gather(*map(self.runner.run, runs)))[-1]

    @property
    def changes(self) -> list[tuple[str, bool]]:
        return self.told.of("breaker_changed")


SAYS_DOWN = [
    says("429 Too Many Requests"),
    says("502 Bad Gateway"),
    says("503 Service Unavailable"),
    says("504 Gateway Timeout"),
    hang_up,
    reset,
]
SAYS_THERE = [
    says(),
    says("302 Found"),
    says("404 Not Found"),
    says("408 Request Timeout"),
    says("410 Gone"),
    says("500 Internal Server Error"),
    break_off_in_body,
]


@pytest.mark.parametrize("behaviour", SAYS_DOWN)
async def test_an_endpoint_that_is_down_is_not_called_further(
    behaviour: Callable[..., Any],
) -> None:
    async with ScriptedServer(behaviour) as sink, BreakerHarness() as bench:
        assert isinstance(await bench.call(sink.url(), CALLS_MIN), Failed)
        outcome = await bench.call(sink.url("/another"))
        assert isinstance(outcome, Snoozed)
        assert outcome.delay >= timedelta(seconds=HOLD_SECONDS_MIN / 2)
        assert outcome.reason == (
            f"http://127.0.0.1:{sink.port} seems to be down, so no call was made"
        )
        assert bench.changes == [(f"http://127.0.0.1:{sink.port}", True)]
    assert len(sink.received) == CALLS_MIN


@pytest.mark.parametrize("behaviour", SAYS_THERE)
async def test_an_endpoint_that_answers_is_called_whatever_it_says(
    behaviour: Callable[..., Any],
) -> None:
    async with ScriptedServer(behaviour) as sink, BreakerHarness() as bench:
        assert not isinstance(await bench.call(sink.url(), 3 * CALLS_MIN), Snoozed)
        assert not isinstance(await bench.call(sink.url()), Snoozed)
        assert bench.changes == []
    assert len(sink.received) == 3 * CALLS_MIN + 1


async def test_an_endpoint_where_nobody_listens_is_not_called_further() -> None:
    async with ScriptedServer() as sink:
        url = sink.url()
    async with BreakerHarness() as bench:
        assert isinstance(await bench.call(url, CALLS_MIN), Failed)
        assert isinstance(await bench.call(url), Snoozed)


async def test_an_endpoint_that_does_not_answer_in_time_is_not_called_further() -> None:
    async with (
        ScriptedServer(silent) as sink,
        BreakerHarness(timeout=timedelta(seconds=0.05)) as bench,
    ):
        assert isinstance(await bench.call(sink.url(), CALLS_MIN), Failed)
        assert isinstance(await bench.call(sink.url()), Snoozed)


async def test_an_attempt_that_its_worker_stops_at_the_deadline_counts_as_no_answer() -> None:
    async with ScriptedServer(silent) as sink, BreakerHarness() as bench:
        deadline = bench.clock.now() + timedelta(seconds=9)
        runs = [a_run(sink.url(), deadline=deadline) for _ in range(CALLS_MIN)]
        tasks = [asyncio.create_task(bench.runner.run(run)) for run in runs]
        await eventually(lambda: len(sink.received) == CALLS_MIN, "the requests are there")
        bench.clock.seconds += 9
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        assert isinstance(await bench.call(sink.url()), Snoozed)


async def test_a_refused_address_says_nothing_of_the_endpoint() -> None:
    async with ScriptedServer() as sink, BreakerHarness(private_allowed=False) as bench:
        outcome = await bench.call(sink.url(), 3 * CALLS_MIN)
        assert isinstance(outcome, Failed)
        assert not outcome.retryable
        assert bench.changes == []


async def test_a_bad_path_does_not_hold_back_the_good_ones() -> None:
    async def by_path(writer: StreamWriter, received: Received) -> None:
        await (DOWN if received.path == "/bad" else says())(writer, received)

    async with ScriptedServer(by_path) as sink, BreakerHarness() as bench:
        for _ in range(10 * CALLS_MIN):
            assert isinstance(await bench.call(sink.url("/good"), 2), Succeeded)
            assert isinstance(await bench.call(sink.url("/bad")), Failed)


async def test_another_endpoint_is_not_held_back() -> None:
    async with ScriptedServer(DOWN) as sink, ScriptedServer() as other, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN)
        assert isinstance(await bench.call(other.url()), Succeeded)


async def test_one_probe_goes_out_and_a_success_opens_the_way() -> None:
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN)
        bench.clock.seconds += HOLD_SECONDS_MIN
        sink.behaviour = says()
        outcomes = await asyncio.gather(
            *(bench.runner.run(a_run(sink.url())) for _ in range(100)),
        )
        assert Counter(map(type, outcomes)) == {Succeeded: 1, Snoozed: 99}
        assert isinstance(await bench.call(sink.url(), 100), Succeeded)
        assert [is_open for _, is_open in bench.changes] == [True, False]
    assert len(sink.received) == CALLS_MIN + 1 + 100


async def test_a_probe_that_is_cancelled_lets_another_go() -> None:
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN)
        bench.clock.seconds += HOLD_SECONDS_MIN
        sink.behaviour = silent
        task = asyncio.create_task(bench.runner.run(a_run(sink.url())))
        await eventually(lambda: len(sink.received) > CALLS_MIN, "the probe is there")
        assert isinstance(await bench.call(sink.url()), Snoozed)
        task.cancel()
        await asyncio.wait([task])
        sink.behaviour = says()
        assert isinstance(await bench.call(sink.url()), Succeeded)


async def test_the_pause_that_an_endpoint_asks_for_is_kept_for_all_its_jobs() -> None:
    async with (
        ScriptedServer(says("429 Too Many Requests", b"", "Retry-After: 40")) as sink,
        BreakerHarness() as bench,
    ):
        await bench.call(sink.url(), CALLS_MIN)
        bench.clock.seconds += 39
        outcome = await bench.call(sink.url())
        assert isinstance(outcome, Snoozed)
        assert outcome.delay >= timedelta(seconds=1)
        bench.clock.seconds += 1
        assert isinstance(await bench.call(sink.url()), Failed)
    assert len(sink.received) == CALLS_MIN + 1


async def test_a_gone_endpoint_is_a_final_failure_that_says_so() -> None:
    async with ScriptedServer(says("410 Gone", b"moved out")) as sink, BreakerHarness() as bench:
        outcome = await bench.call(sink.url("/a"))
    assert outcome == Failed(
        f"GET {sink.url('/a')} answered 410 Gone: moved out;"
        " the endpoint is permanently gone: change or remove its callers",
        retryable=False,
    )


ALERT = {"cause": EventCause(OUTAGE, 1)}


async def test_an_outage_is_reported_once_without_a_word_of_what_was_sent() -> None:
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url("/token/s3cret?key=s3cret"), CALLS_MIN)
        await bench.call(sink.url(), 3)
        (outage,) = bench.outages
        assert outage == Outage(
            endpoint=f"http://127.0.0.1:{sink.port}",
            since=CLOCK.at,
            calls=CALLS_MIN,
            failures=CALLS_MIN,
            error="answered 503 Service Unavailable",
            depth=1,
        )
        bench.clock.seconds += HOLD_SECONDS_MAX
        await bench.call(sink.url())  # the probe fails: the same outage
        assert len(bench.outages) == 1


async def test_the_next_outage_of_an_endpoint_is_another() -> None:
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN)
        sink.behaviour = says()
        bench.clock.seconds += HOLD_SECONDS_MAX
        await bench.call(sink.url())
        sink.behaviour = DOWN
        bench.clock.seconds += 3600
        await bench.call(sink.url(), CALLS_MIN)
        assert [one.since - CLOCK.at for one in bench.outages] == [
            timedelta(),
            timedelta(seconds=3600 + HOLD_SECONDS_MAX),
        ]


async def test_an_alert_to_a_dead_endpoint_raises_none() -> None:
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN, job=ALERT)
        assert isinstance(await bench.call(sink.url()), Snoozed)
        assert bench.outages == []
        bench.clock.seconds += HOLD_SECONDS_MAX
        await bench.call(sink.url(), job=ALERT)
        assert bench.outages == []
        bench.clock.seconds += 2 * HOLD_SECONDS_MAX
        # The outage is not hidden from others: the probe of any other job reports it.
        await bench.call(sink.url(), job={"cause": EventCause("onbeat.job.failed", 3)})
        assert [(one.depth, one.since) for one in bench.outages] == [(4, CLOCK.at)]


async def test_an_outage_behind_too_many_own_events_is_not_reported() -> None:
    cause = EventCause("onbeat.job.failed", EVENT_DEPTH_MAX)
    async with ScriptedServer(DOWN) as sink, BreakerHarness() as bench:
        await bench.call(sink.url(), CALLS_MIN, job={"cause": cause})
        assert bench.outages == []


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://a.example/x?y", "http://a.example:80"),
        ("http://a.example:80/", "http://a.example:80"),
        ("https://a.example/", "https://a.example:443"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]:443"),
    ],
)
def test_an_endpoint_is_scheme_host_and_port(url: str, endpoint: str) -> None:
    assert endpoint_of(URL(url, encoded=True)) == endpoint


def test_so_many_endpoints_are_known_and_the_least_recently_called_is_forgotten() -> None:
    answer, clock = RecordingTelemetry(), HandClock()
    breakers = Breakers(clock, answer)
    job = a_run("http://a/").job
    down = URL("http://down.example/")
    for _ in range(CALLS_MIN):
        breakers.call(endpoint_of(down), job).fail("answered 503")
    for n in range(ENDPOINTS_MAX - 1):
        breakers.call(f"http://h{n}.example:80", job).succeed()
    assert isinstance(breakers.call(endpoint_of(down), job), Snoozed)
    for n in range(ENDPOINTS_MAX - 1):
        breakers.call(f"http://i{n}.example:80", job).succeed()
    assert len(breakers.breakers) == ENDPOINTS_MAX
    assert isinstance(breakers.call(endpoint_of(down), job), Snoozed)
    for n in range(ENDPOINTS_MAX):
        breakers.call(endpoint_of(URL(f"http://j{n}.example/")), job).succeed()
    endpoint = "http://down.example:80"
    assert answer.of("breaker_changed") == [(endpoint, True), (endpoint, False)]
    assert len(breakers.breakers) == ENDPOINTS_MAX


@given(tokens=st.sets(st.integers(0, 2**63 - 1), min_size=2, max_size=200))
def test_each_claim_of_a_job_has_a_chance_of_its_own(tokens: set[int]) -> None:
    job = a_run("http://a/").job
    chances = [chance_of(replace(job, token=token)) for token in tokens]
    assert len(set(chances)) == len(tokens)
    assert all(0 <= chance < 1 for chance in chances)
    assert chances == [chance_of(replace(job, token=token)) for token in tokens]


JOBS = 3_000
OUTAGE_SECONDS = 60


async def test_an_outage_costs_its_jobs_few_attempts_and_its_target_few_calls() -> None:
    """The real engine on a virtual clock, at a target that is down for its first minute."""
    beat = Onbeat("memory://")
    async with ScriptedServer() as sink, beat.testing("2026-12-01T09:00Z") as trial:
        back_at = trial.now + timedelta(seconds=OUTAGE_SECONDS)

        async def down_until_then(writer: StreamWriter, received: Received) -> None:
            await (says() if trial.now >= back_at else DOWN)(writer, received)

        sink.behaviour = down_until_then
        call = http("POST", sink.url(), body="{}")
        await beat.asend([call] * JOBS)
        await trial.aadvance("5m")

        attempts = Counter(type(ran.outcome) for ran in trial.ran)
        ended = {ran.job.id: ran.job for ran in trial.ran if ran.job.is_final}
        first_tries = {received.lower["onbeat-job-id"] for received in sink.received}
        assert attempts[Succeeded] == len(ended) == len(first_tries) == JOBS
        assert all(job.state is JobState.SUCCEEDED for job in ended.values())
        assert all(job.attempt <= 3 for job in ended.values())
        concurrency = beat.backend.options.runtime.concurrency
        assert attempts[Failed] <= concurrency + OUTAGE_SECONDS / (HOLD_SECONDS_MIN / 2)
        assert len(sink.received) <= 1.2 * len(first_tries)
        assert attempts[Snoozed] <= 8 * JOBS
        last = max(job.finished_at for job in ended.values())
        assert last <= back_at + timedelta(seconds=2 * OUTAGE_SECONDS)
        first = min(job.finished_at for job in ended.values())
        tenth = timedelta(seconds=0.1)
        tenths = Counter((job.finished_at - first) // tenth for job in ended.values())
        assert max(tenths.values()) <= 2.2 * JOBS / ((last - first) / tenth) + 1


async def test_why_and_the_history_say_that_the_endpoint_is_down() -> None:
    beat = Onbeat("memory://")
    async with ScriptedServer(DOWN) as sink, beat.testing("2026-12-01T09:00Z") as trial:
        await beat.asend([http("GET", sink.url())] * 500)
        await trial.adrain()
        put_off = next(ran.job for ran in trial.ran if isinstance(ran.outcome, Snoozed))
        message = f"http://127.0.0.1:{sink.port} seems to be down, so no call was made"
        assert put_off.reason == message
        assert put_off.attempt == 0
        why = await beat.jobs.awhy(put_off.id)
        assert why.code == "put_off"
        assert message in why.explanation
        assert why.may_run_at == put_off.due_at
        attempts = (await beat.jobs.aget(put_off.id)).attempts
        assert attempts is not UNSET
        (attempt,) = attempts
        assert (attempt.outcome, attempt.error) == ("snoozed", message)
