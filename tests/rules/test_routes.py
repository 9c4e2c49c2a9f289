"""What the router makes of events."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.condition import Window
from onbeat.model.errors import TooCostly
from onbeat.model.event import EventCause
from onbeat.model.limits import (
    EVENT_DEPTH_MAX,
    KEY_CHARS_MAX,
    VERDICT_CHARS_MAX,
    VERDICTS_MAX,
)
from onbeat.model.reaction import Keep
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import ScheduleStatus
from onbeat.rules.event_patterns import ReactionIndex
from onbeat.rules.reactions import compile_reaction, uncompiled_reaction
from onbeat.rules.routes import COUNTED
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND
from rules.reactions import COMPILERS, Routed, a_reaction, an_event, gather, on

BY = "event.data.key"
EVENING = Window(start=18 * 60, end=20 * 60, timezone="UTC")
"""It opens six hours after `NOW`."""


def keyed(key: object = "k", **fields):
    return an_event(data={"key": key}, **fields)


def test_an_event_makes_a_job_with_what_its_schedule_passes_on() -> None:
    schedule = a_reaction(
        queue="otp", priority=7, labels={"a": "b"}, delay=MINUTE, expires_after=2 * MINUTE
    )
    event, routed = an_event(), Routed(schedule)
    routing = routed.take([event], now=NOW + SECOND)
    (job,) = routing.jobs
    assert (job.queue, job.priority, job.labels) == ("otp", 7, {"a": "b"})
    assert (job.target, job.schedule_id) == (schedule.target, schedule.id)
    assert job.due_at == NOW + MINUTE
    assert job.expires_at == job.start_by == NOW + 3 * MINUTE
    assert job.created_at == NOW + SECOND
    assert job.cause == EventCause("paid", 0, carried=True)
    assert routing.versions == {schedule.id: schedule.version}
    assert routing.keyed == ()
    assert routed.reads == {job.id: [event.seq]}


def test_the_id_of_a_job_follows_from_schedule_source_and_event() -> None:
    event, schedule = an_event(), a_reaction()
    first, again = Routed(schedule).take([event]), Routed(schedule).take([event], now=NOW + HOUR)
    assert [job.id for job in first.jobs] == [job.id for job in again.jobs]
    others = [
        replace(event, event=replace(event.event, source="/other")),
        replace(event, event=replace(event.event, id="other")),
    ]
    ids = {Routed(schedule).take([one]).jobs[0].id for one in (event, *others)}
    ids.add(Routed(a_reaction()).take([event]).jobs[0].id)
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("pattern", "type", "source", "is_wanted"),
    [
        (on("paid"), "paid", "/shop", True),
        (on("paid"), "paid.twice", "/shop", False),
        (on("pay.*"), "pay.done", "/shop", True),
        (on("pay.*"), "pay", "/shop", False),
        (on("*"), "anything", "/shop", True),
        (on("paid", source="/shop"), "paid", "/shop", True),
        (on("paid", source="/shop"), "paid", "/shop/2", False),
        (on("paid", source="/shop/*"), "paid", "/shop/2", True),
    ],
)
def test_type_and_source_are_exact_or_have_a_star_at_the_end(
    pattern, type, source, is_wanted
) -> None:
    event, routed = an_event(type, source=source), Routed(a_reaction(pattern))
    routed.take([event])
    assert bool(routed.jobs) is is_wanted
    # A schedule whose type or source do not match is not listed with the event.
    assert len(routed.verdicts[event.seq]) == is_wanted


def test_the_index_finds_what_a_search_of_all_patterns_finds() -> None:
    types = ["a", "a.b", "a.b.c", "b", "a.*", "a.b*", "*", "b.*"]
    reactions = [compile_reaction(a_reaction(on(type)), COMPILERS) for type in types]
    index = ReactionIndex(reactions)
    for type in ("a", "a.b", "a.b.c", "a.bc", "b", "b.x", "c", ""):
        found = {reaction.on[0].source.type for reaction in index.of_type(type)}
        assert found == {
            one
            for one in types
            if (one[:-1] == type[: len(one) - 1] if one[-1:] == "*" else one == type)
        }


def test_a_condition_filters_and_says_so() -> None:
    routed = Routed(a_reaction(on(condition="event.data.key == 'yes'")))
    wanted, other, broken = keyed("yes"), keyed("no"), an_event()
    routed.take([wanted, other, broken])
    assert routed.job_of(wanted)
    assert routed.reason(other) == "condition is false"
    assert routed.reason(broken) == "condition failed: no such key: data"


def test_a_condition_that_is_no_truth_makes_no_job() -> None:
    routed, event = Routed(a_reaction(on(condition=BY))), keyed("text")
    routed.take([event])
    assert routed.reason(event) == "condition failed: it is neither true nor false"


def test_the_first_pattern_that_holds_gives_the_key() -> None:
    schedule = a_reaction(
        on(condition="event.data.key == 'x'", by="event.id"),
        on("other", by="event.id"),
        on("pa*", by=BY),
        gather=gather(60),
    )
    routed, event = Routed(schedule), keyed("k")
    (row,) = routed.take([event]).keyed
    assert row.key.by == "k"


@pytest.mark.parametrize(
    ("value", "key"),
    [("a", "a"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (True, "true"), (False, "false"), ("", "")],
)
def test_a_key_is_a_text(value, key) -> None:
    (row,) = Routed(a_reaction(on(by=BY), gather=gather(60))).take([keyed(value)]).keyed
    assert row.key.by == key


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1], "by failed: it gives neither a text, nor a number, nor true or false"),
        (None, "by failed: it gives neither a text, nor a number, nor true or false"),
        ("a\0", "by failed: the key holds NUL or half a character, which no store can keep"),
        ("x" * (KEY_CHARS_MAX + 1), "by failed: the key has 501 characters; 500 are allowed"),
    ],
)
def test_a_key_that_no_store_can_keep_makes_no_job(value, reason) -> None:
    routed, event = Routed(a_reaction(on(by=BY), gather=gather(60))), keyed(value)
    routed.take([event])
    assert routed.reason(event) == reason
    longest = keyed("x" * KEY_CHARS_MAX)
    routed.take([longest])
    assert routed.job_of(longest)


def test_a_schedule_that_does_not_run_makes_no_job() -> None:
    paused = Routed(a_reaction(status=ScheduleStatus.PAUSED))
    early = Routed(a_reaction(starts_at=NOW + SECOND))
    late = Routed(a_reaction(ends_at=NOW - SECOND))
    event = an_event()
    for routed in (paused, early, late):
        assert routed.take([event]).jobs == ()
    assert paused.reason(event) == "schedule is paused"
    assert early.reason(event) == "schedule has not started: see its starts_at"
    assert late.reason(event) == "schedule has ended: see its ends_at"
    edge = Routed(a_reaction(starts_at=NOW, ends_at=NOW))
    edge.take([event])
    assert edge.job_of(event)


def test_a_schedule_that_cannot_be_judged_here_keeps_no_other_from_the_event() -> None:
    good, bad = a_reaction(), a_reaction()
    routed, event = Routed(), an_event()
    routed.index = ReactionIndex(
        [uncompiled_reaction(bad, "needs the extra"), compile_reaction(good, COMPILERS)]
    )
    routed.take([event])
    reasons = {verdict.schedule_id: verdict.reason for verdict in routed.verdicts[event.seq]}
    assert reasons == {good.id: None, bad.id: "needs the extra"}


def test_cancel_on_ends_the_waiting_jobs_with_the_key() -> None:
    schedule = a_reaction(on(by=BY), cancel_on=(on("done"),), delay=10 * MINUTE)
    routed = Routed(schedule)
    one, same, other = keyed("a"), keyed("a"), keyed("b")
    routed.take([one, same, other])
    done = keyed("a", type="done")
    routed.take([done])
    assert routed.cancelled == dict.fromkeys(
        (routed.job_of(one).id, routed.job_of(same).id), f"event {done.event.id}"
    )
    assert routed.reason(done) == "cancelled 2 waiting jobs"


def test_a_job_of_the_same_batch_is_made_and_cancelled() -> None:
    routed = Routed(a_reaction(on(by=BY), cancel_on=(on("done"),)))
    start, done, late = keyed("a"), keyed("a", type="done"), keyed("a")
    routing = routed.take([start, done, late])
    assert [job.id for job in routing.jobs] == [routed.job_of(start).id, routed.job_of(late).id]
    assert set(routing.cancelled) == {routed.job_of(start).id}
    assert routed.reason(done) == "cancelled 1 waiting job"


def test_an_event_that_cancels_and_makes_a_job_leaves_its_own() -> None:
    routed = Routed(a_reaction(on(by=BY), cancel_on=(on(),), delay=MINUTE))
    first, second = keyed(), keyed()
    routed.take([first, second])
    assert set(routed.cancelled) == {routed.job_of(first).id}
    assert routed.job_of(second).id not in routed.cancelled


def test_cancel_on_may_have_a_condition_and_a_key_of_its_own() -> None:
    cancel = on("done", by="event.data.of", condition="event.data.ok == 'yes'")
    routed = Routed(a_reaction(on(by=BY), cancel_on=(cancel,), delay=MINUTE))
    start = keyed("a")
    no = an_event("done", data={"of": "a", "ok": "no"})
    yes = an_event("done", data={"of": "a", "ok": "yes"})
    routed.take([start, no])
    assert routed.cancelled == {}
    assert routed.reason(no) == "condition is false"
    routed.take([yes])
    assert set(routed.cancelled) == {routed.job_of(start).id}


def test_a_digest_takes_the_events_of_a_span() -> None:
    routed = Routed(a_reaction(gather=gather(60)))
    events = [an_event(after=n * SECOND) for n in (0, 30, 59, 60)]
    routing = routed.take(events)
    first, second = routing.jobs
    assert (first.due_at, second.due_at) == (NOW + MINUTE, NOW + 2 * MINUTE)
    assert routed.reads == {
        first.id: [event.seq for event in events[:3]],
        second.id: [events[3].seq],
    }
    assert [row.gathered for row in routing.keyed] == [3, 1]
    assert routing.joined == ()


def test_a_later_batch_joins_a_digest_that_waits() -> None:
    routed = Routed(a_reaction(gather=gather(60)))
    first, second, third = (an_event(after=n * SECOND) for n in (0, 10, 20))
    routed.take([first])
    job = routed.job_of(first)
    assert routed.take([second]).joined == (job.id,)
    routed.start(job.id)
    assert [made.due_at for made in routed.take([third]).jobs] == [NOW + 80 * SECOND]


def test_a_digest_is_full_with_the_most_events() -> None:
    routed = Routed(a_reaction(gather=gather(60, most=2)))
    routing = routed.take([an_event(after=n * SECOND) for n in range(5)])
    assert [len(routed.reads[job.id]) for job in routing.jobs] == [2, 2, 1]


def test_events_are_gathered_by_key() -> None:
    routed = Routed(a_reaction(on(by="event.id"), gather=gather(60, by=BY)))
    routing = routed.take([keyed("a"), keyed("b"), keyed("a")])
    assert sorted(len(routed.reads[job.id]) for job in routing.jobs) == [1, 2]


def test_a_digest_may_wait_for_an_instant_of_a_recurrence() -> None:
    until = RecurrenceSpec("cron", "0 8 * * *", tz="Europe/Berlin")
    routed = Routed(a_reaction(gather=gather(until=until)))
    (job,) = routed.take([an_event(), an_event(after=HOUR)]).jobs
    assert job.due_at == NOW + 19 * HOUR
    assert len(routed.reads[job.id]) == 2


def test_a_recurrence_without_further_instants_makes_no_job_and_says_so() -> None:
    until = RecurrenceSpec("once", "2020-01-01T00:00:00Z")
    routed, event = Routed(a_reaction(gather=gather(until=until))), an_event()
    routed.take([event])
    assert routed.reason(event) == "gather.until has no further instant"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TooCostly(5), "gather.until takes too long to compute"),
        (ValueError("odd"), "gather.until cannot be computed: odd"),
    ],
)
def test_a_recurrence_that_fails_keeps_no_other_schedule_from_the_event(error, reason) -> None:
    def compile(_spec, _budget=None):
        raise error

    until = RecurrenceSpec("cron", "0 8 * * *")
    routed, event = Routed(a_reaction(gather=gather(until=until)), a_reaction()), an_event()
    routed.take([event], compile=compile)
    assert {verdict.reason for verdict in routed.verdicts[event.seq]} == {None, reason}


def test_a_debounce_waits_for_quiet_up_to_its_bound() -> None:
    schedule = a_reaction(
        on(by=BY),
        gather=gather(60, quiet=20, keep=Keep.LAST),
        delay=SECOND,
        expires_after=MINUTE,
    )
    routed = Routed(schedule)
    events = [keyed(after=n * SECOND) for n in (0, 15, 30, 45, 55)]
    dues = []
    for event in events:
        routed.take([event])
        dues.append((routed.job_of(event).due_at - NOW) // SECOND)
    assert dues == [21, 36, 51, 61, 61]
    (job,) = routed.jobs.values()
    assert routed.reads == {job.id: [events[-1].seq]}
    # It does not expire before it may be due.
    assert job.expires_at == NOW + 121 * SECOND


def test_of_a_debounce_the_first_may_be_kept() -> None:
    routed = Routed(a_reaction(on(by=BY), gather=gather(60, quiet=20, keep=Keep.FIRST)))
    first, second = keyed(), keyed(after=10 * SECOND)
    routed.take([first, second])
    assert routed.reads == {routed.job_of(first).id: [first.seq]}
    assert routed.job_of(second) == routed.job_of(first)


def test_a_job_is_due_when_its_window_opens() -> None:
    opening, jitter = NOW + 6 * HOUR, 10 * MINUTE
    schedule = a_reaction(window=(EVENING,), delay=MINUTE, expires_after=HOUR, jitter=jitter)
    routed = Routed(schedule)
    soon, later = an_event(), an_event(after=7 * HOUR)
    held, free = routed.take([soon, later]).jobs
    assert held.due_at == opening
    assert opening + HOUR <= free.due_at <= opening + HOUR + MINUTE + jitter
    # The expiry counts from when it would be due without the window.
    assert NOW + HOUR + MINUTE <= held.expires_at == held.start_by <= NOW + HOUR + MINUTE + jitter


def test_a_window_puts_off_a_digest_and_not_its_end() -> None:
    schedule = a_reaction(gather=gather(3600), window=(EVENING,), expires_after=HOUR)
    routed = Routed(schedule)
    first, joins, late = (an_event(after=n * MINUTE) for n in (0, 59, 60))
    routed.take([first])
    routed.take([joins, late])
    assert routed.job_of(joins) == routed.job_of(first)
    assert routed.job_of(late).id != routed.job_of(first).id
    assert {job.due_at for job in routed.jobs.values()} == {NOW + 6 * HOUR}
    # One that joined the first until the window opens would expire with it.
    assert routed.job_of(first).expires_at == NOW + 2 * HOUR
    assert routed.job_of(late).expires_at == NOW + 3 * HOUR


def test_a_debounce_is_put_off_to_a_time_at_which_a_window_is_open() -> None:
    window = Window(start=12 * 60 + 5, end=12 * 60 + 20, timezone="UTC")
    tomorrow = NOW + DAY + 5 * MINUTE
    routed = Routed(a_reaction(gather=gather(1800, quiet=300), delay=MINUTE, window=(window,)))
    dues = []
    for minutes in (0, 1, 10, 13, 20, 29):
        event = an_event(after=minutes * MINUTE)
        routed.take([event])
        dues.append(routed.job_of(event).due_at)
    assert dues == [NOW + n * MINUTE for n in (6, 7, 16, 19)] + [tomorrow] * 2
    # Of the last three the first was too late for the second job, and began the third.
    assert len(routed.jobs) == 3


def test_a_throttle_counts_by_its_own_time_while_its_window_is_closed() -> None:
    routed = Routed(a_reaction(gather=gather(3600, keep=Keep.FIRST), window=(EVENING,)))
    routing = routed.take([an_event(after=n * MINUTE) for n in (0, 59, 60)])
    assert [job.due_at for job in routing.jobs] == [NOW + 6 * HOUR] * 2
    assert [row.gathered for row in routing.keyed] == [2, 1]


def test_without_a_key_all_events_of_a_schedule_share_one() -> None:
    throttle = Routed(a_reaction(gather=gather(60, keep=Keep.FIRST)))
    routing = throttle.take([keyed("a"), keyed("b")])
    assert [(row.key.by, row.gathered) for row in routing.keyed] == [("", 2)]

    debounce = Routed(a_reaction(gather=gather(60, quiet=20, keep=Keep.LAST), cancel_on=(on("d"),)))
    first, last = keyed("a"), keyed("b", after=SECOND)
    debounce.take([first, last])
    job = debounce.job_of(first)
    assert debounce.reads == {job.id: [last.seq]}
    debounce.take([keyed("c", type="d", after=2 * SECOND)])
    assert set(debounce.cancelled) == {job.id}


def test_a_throttle_runs_the_first_and_counts_the_rest() -> None:
    routed = Routed(a_reaction(on(by=BY), gather=gather(60, keep=Keep.FIRST)))
    first, second, third, fourth = (keyed(after=n * SECOND) for n in (0, 10, 59, 60))
    routed.take([first])
    job = routed.job_of(first)
    assert job.due_at == NOW
    routed.start(job.id)
    routing = routed.take([second, third])
    assert (routing.jobs, routing.joined) == ((), ())
    assert routed.job_of(second) == job
    assert routed.reason(third) == COUNTED
    assert routed.keyed[job.id].gathered == 3
    assert routed.reads == {job.id: [first.seq]}
    assert len(routed.take([fourth]).jobs) == 1


def test_a_throttle_counts_until_an_instant() -> None:
    until = RecurrenceSpec("cron", "0 13 * * *", tz="UTC")
    routed = Routed(a_reaction(on(by=BY), gather=gather(until=until, keep=Keep.FIRST)))
    routing = routed.take([keyed(), keyed(after=HOUR - SECOND), keyed(after=HOUR)])
    assert [job.due_at for job in routing.jobs] == [NOW, NOW + HOUR]


def test_a_throttle_whose_job_was_cancelled_begins_again() -> None:
    schedule = a_reaction(
        on(by=BY), gather=gather(3600, keep=Keep.FIRST), cancel_on=(on("done"),), delay=MINUTE
    )
    routed = Routed(schedule)
    first, done, second = keyed(), keyed(type="done", after=SECOND), keyed(after=2 * SECOND)
    routed.take([first])
    assert routed.take([done]).joined == (routed.job_of(first).id,)
    routed.take([second])
    assert routed.job_of(second).id != routed.job_of(first).id


def test_a_replayed_event_makes_no_second_job_of_a_schedule() -> None:
    kept, fresh = a_reaction(on(by=BY), gather=gather(60)), a_reaction()
    event = keyed()
    routed = Routed(kept)
    routed.take([event])
    job = routed.job_of(event)
    routed.start(job.id)
    routed.index = ReactionIndex(compile_reaction(one, COMPILERS) for one in (kept, fresh))
    routing = routed.take([event], now=NOW + HOUR, made={event.seq: routed.verdicts[event.seq]})
    assert [made.schedule_id for made in routing.jobs] == [fresh.id]
    # It counts from its replay.
    assert routing.jobs[0].due_at == NOW + HOUR
    assert [verdict.job_id for verdict in routing.verdicts[event.seq]] == [
        job.id,
        routing.jobs[0].id,
    ]


def test_a_replayed_cancel_leaves_jobs_that_came_after_it() -> None:
    routed = Routed(a_reaction(on(by=BY), cancel_on=(on("done"),), delay=HOUR))
    done, later = keyed(type="done"), keyed(after=SECOND)
    routed.take([done, later])
    again = replace(done, verdicts=routed.verdicts[done.seq])
    assert routed.take([again], now=NOW + MINUTE).cancelled == {}


@pytest.mark.parametrize(
    ("depth", "kept"),
    [(0, 0), (3, 3), (EVENT_DEPTH_MAX + 1, EVENT_DEPTH_MAX), (-5, 0), ("deep", 0)],
)
def test_a_job_knows_how_many_own_events_led_to_it(depth, kept) -> None:
    event = an_event("onbeat.job.failed", extensions={"onbeatdepth": depth})
    (job,) = Routed(a_reaction(on("onbeat.*"))).take([event]).jobs
    assert job.cause == EventCause("onbeat.job.failed", kept)


def test_the_verdicts_of_an_event_are_bounded_but_for_jobs() -> None:
    makers = [a_reaction() for _ in range(3)]
    others = [a_reaction(on(condition=BY)) for _ in range(VERDICTS_MAX + 7)]
    routed, event = Routed(*others, *makers), an_event()
    routed.take([event])
    *listed, more = routed.verdicts[event.seq]
    assert [verdict.schedule_id for verdict in listed[:3]] == [one.id for one in makers]
    assert len(listed) == 3 + VERDICTS_MAX
    assert more.reason == "and 7 more schedules made no job of it"
    exact = Routed(*others[7:])
    exact.take([event])
    assert len(exact.verdicts[event.seq]) == VERDICTS_MAX


def test_a_reason_is_bounded() -> None:
    reaction = uncompiled_reaction(a_reaction(), "x" * 10_000)
    routed, event = Routed(), an_event()
    routed.index = ReactionIndex([reaction])
    routed.take([event])
    assert len(routed.reason(event) or "") == VERDICT_CHARS_MAX


def test_one_decision_has_a_bounded_number_of_matches() -> None:
    routed = Routed(*(a_reaction() for _ in range(3)))
    events = [an_event() for _ in range(4)]
    assert list(routed.take(events, most=6).verdicts) == [event.seq for event in events[:2]]
    # A single event is decided on whatever it matches.
    assert list(routed.take(events[2:], most=1).verdicts) == [events[2].seq]


def test_an_event_that_no_schedule_wants_is_decided_on() -> None:
    event = an_event("nobody")
    assert Routed(a_reaction()).take([event]).verdicts == {event.seq: ()}


SCHEDULES = (
    a_reaction(on(by=BY), cancel_on=(on("done"),), delay=20 * SECOND),
    a_reaction(on(), on("done"), gather=gather(30, most=3)),
    a_reaction(on(by=BY), gather=gather(40, quiet=10, keep=Keep.LAST), cancel_on=(on("done"),)),
    a_reaction(
        on(by=BY),
        gather=gather(30, keep=Keep.FIRST),
        cancel_on=(on("done"),),
        delay=5 * SECOND,
    ),
    a_reaction(on("*", condition="event.type == 'done'"), status=ScheduleStatus.PAUSED),
    a_reaction(gather=gather(30, keep=Keep.FIRST), cancel_on=(on("done"),)),
    a_reaction(
        gather=gather(40, quiet=10, keep=Keep.LAST),
        cancel_on=(on("done"),),
        window=(Window(start=12 * 60 + 2, end=12 * 60 + 4, timezone="UTC"),),
    ),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["paid", "done", "other"]), st.sampled_from("ab"), st.integers(0, 15)
    ),
    max_size=30,
)


@given(STEPS, st.data())
def test_the_same_events_give_the_same_jobs_in_any_batches(steps, data) -> None:
    at, events = timedelta(), []
    for type, key, later in steps:
        at += later * SECOND
        events.append(keyed(key, type=type, after=at))
    whole, parts = Routed(*SCHEDULES), Routed(*SCHEDULES)
    whole.take(events)
    rest = events
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        parts.take(rest[:size])
        rest = rest[size:]
    assert parts.jobs == whole.jobs
    assert (parts.reads, parts.cancelled) == (whole.reads, whole.cancelled)
    assert parts.verdicts == whole.verdicts
    for event in events:
        wanted = {"paid": 7, "done": 7, "other": 1}[event.event.type]
        assert len(whole.verdicts[event.seq]) == wanted


def test_the_decision_is_plain_data() -> None:
    routing = Routed(*SCHEDULES).take([keyed()])
    assert msgspec.json.encode(routing)
