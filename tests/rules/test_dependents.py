from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Edge
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.rules.dependents import (
    LEVEL_COST,
    Cascade,
    Doom,
    Holders,
    Wait,
    after_holders,
    cancelled_on_arrival,
    places_to_cut,
    refuse_unknown,
    repeats_a_key,
)
from onbeat.testing.build import a_job


def run(ended: dict[Any, Any], waits: list[Wait], room: int = DEPENDENTS_MAX) -> Cascade:
    """The cascade over these waits, as a store would give them to it."""
    cascade = Cascade(ended, room)
    while cascade.level:
        result = [wait for wait in waits if wait.awaits in cascade.level][: cascade.room]
        cascade.take(result, len(result))
    return cascade


def needs(job: Any, other: Any) -> Wait:
    return Wait(job, other, Edge.SUCCESS)


def follows(job: Any, other: Any) -> Wait:
    return Wait(job, other, Edge.END)


def test_a_success_frees() -> None:
    wait = needs("b", "a")
    cascade = run({"a": "succeeded"}, [wait])
    assert (cascade.freed_waits(), cascade.cancelled, cascade.unfinished) == ([wait], {}, {})


def test_any_end_frees_who_waits_for_any_end() -> None:
    for state in ("succeeded", "failed", "cancelled"):
        assert run({"a": state}, [follows("b", "a")]).freed_waits() == [follows("b", "a")]


def test_a_failure_cancels_with_its_cause_and_so_on() -> None:
    cascade = run({"a": "failed"}, [needs("b", "a"), needs("c", "b"), follows("d", "c")])
    assert cascade.cancelled == {
        "b": Doom("job a it waited for failed", JobId("a")),
        "c": Doom("job b it waited for was cancelled", JobId("b")),
    }
    assert cascade.freed_waits() == [follows("d", "c")]


def test_a_cancel_cancels() -> None:
    cascade = run({"a": "cancelled"}, [needs("b", "a")])
    assert cascade.cancelled == {"b": Doom("job a it waited for was cancelled", JobId("a"))}


def test_what_one_end_frees_and_another_cancels_is_cancelled_once() -> None:
    cascade = run(
        {"a": "succeeded", "b": "failed"},
        [needs("d", "a"), needs("d", "b"), needs("e", "b"), needs("d", "e")],
    )
    assert list(cascade.cancelled) == ["d", "e"]
    assert cascade.freed_waits() == []


def test_a_level_that_fills_the_room_is_left_over() -> None:
    cascade = run({"a": "failed"}, [needs(f"b{number}", "a") for number in range(10)], room=10)
    assert len(cascade.cancelled) == 10
    assert set(cascade.unfinished) == {"a", *cascade.cancelled}
    assert cascade.unfinished[JobId("a")] == "failed"


def test_a_level_within_the_room_is_done() -> None:
    cascade = run({"a": "succeeded"}, [needs(f"b{number}", "a") for number in range(10)], room=11)
    assert cascade.unfinished == {}


def test_deep_chains_are_cut_where_the_room_ends() -> None:
    chain = [needs(number + 1, number) for number in range(100)]
    cascade: Any = run({0: "failed"}, chain, room=10 * LEVEL_COST)
    assert list(cascade.cancelled) == list(range(1, 11))
    assert cascade.unfinished == {10: "cancelled"}


JOBS = {JobId("a"), JobId("b"), JobId("c")}


class New(NamedTuple):
    id: Any
    after: tuple[Any, ...] = ()
    created_at: int = 0
    awaits_flow: Any = None
    flow: Any = None
    unique: str | None = None

    def edge_to(self, _other: JobId) -> Edge:
        return Edge.SUCCESS


def test_only_new_jobs_that_come_too_late_are_cancelled_at_once() -> None:
    new = [New("a", ("x",), 1), New("b", ("y",), 2), New("c", ("y", "x"), 1), New("old", ("x",))]
    stored: dict[Any, str] = {"x": "failed", "y": "succeeded"}
    assert cancelled_on_arrival(new, JOBS, stored) == {
        1: dict.fromkeys("ac", Doom("job x it waited for failed", JobId("x")))
    }


@given(st.data())
def test_a_new_job_is_cancelled_as_its_predecessors_would_have_cancelled_it(data: Any) -> None:
    """Whether they end before it comes or after makes no difference."""
    states = data.draw(
        st.dictionaries(
            st.sampled_from("xyz"), st.sampled_from(["succeeded", "failed", "cancelled"])
        )
    )
    after = data.draw(st.permutations(sorted(states)))
    early = run(states, [needs("a", other) for other in after]).cancelled
    late = cancelled_on_arrival([New("a", tuple(after))], JOBS, states).get(0, {})
    assert early.keys() == late.keys()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sets(st.sampled_from("abcdx"))), max_size=4))
def test_a_job_waits_only_for_those_that_are_stored_or_stand_before_it(drawn: Any) -> None:
    jobs = [New(id, tuple(sorted(after))) for id, after in dict(drawn).items()]
    coming = [{"x", *(job.id for job in jobs[:place])} for place in range(len(jobs))]
    known: set[Any] = {"x", *(job.id for job in jobs)}
    if all(set(job.after) <= before for job, before in zip(jobs, coming, strict=True)):
        refuse_unknown(jobs, known)
    else:
        with pytest.raises(Invalid, match="does not exist"):
            refuse_unknown(jobs, known)


def test_a_job_that_waits_for_an_unknown_one_is_refused() -> None:
    with pytest.raises(Invalid, match="job z does not exist"):
        refuse_unknown([New("a", ("z",))], JOBS)


FLOW = JobId("01900000-0000-7000-8000-000000000001")
HELD = {JobId("a"): JobId("holder")}


def test_a_job_comes_after_the_holder_of_a_key_in_place_of_the_one_that_was_not_added() -> None:
    job = a_job(after=(JobId("a"), JobId("b")), edges={JobId("a"): Edge.FAILURE})
    assert after_holders(job, Holders(HELD)) == (("holder", "b"), {"holder": Edge.FAILURE})


def test_a_job_whose_predecessors_have_one_holder_comes_after_it_once() -> None:
    both = {JobId("a"): JobId("holder"), JobId("b"): JobId("holder")}
    job = a_job(after=(JobId("a"), JobId("b")))
    assert after_holders(job, Holders(both)) == (("holder",), None)


def test_two_ends_of_one_holder_are_refused() -> None:
    both = {JobId("a"): JobId("holder"), JobId("b"): JobId("holder")}
    job = a_job(after=(JobId("a"), JobId("b")), edges={JobId("b"): Edge.FAILURE})
    with pytest.raises(Invalid, match="two ends of job holder") as caught:
        after_holders(job, Holders(both))
    assert caught.value.field == "after"


@pytest.mark.parametrize("wanted", [Edge.SUCCESS, Edge.END])
def test_who_waits_for_a_flow_waits_for_the_holders_of_its_members_too(wanted: Edge) -> None:
    holders = Holders.among({JobId("a"): FLOW}, HELD)
    job = a_job(awaits_flow=FLOW, edges={FLOW: wanted})
    assert holders.concern(job)
    named = dict.fromkeys(("holder", FLOW), wanted) if wanted is not Edge.SUCCESS else None
    assert after_holders(job, holders) == (("holder",), named)


def test_who_waits_for_a_failure_of_a_flow_waits_for_no_holder() -> None:
    holders = Holders.among({JobId("a"): FLOW}, HELD)
    job = a_job(awaits_flow=FLOW, edges={FLOW: Edge.FAILURE})
    assert not holders.concern(job)
    assert after_holders(job, holders) == ((), {FLOW: Edge.FAILURE})


def test_a_holder_in_the_flow_itself_or_gone_is_not_waited_for() -> None:
    job = a_job(awaits_flow=FLOW)
    among = Holders.among({JobId("a"): FLOW, JobId("holder"): FLOW}, HELD)
    assert after_holders(job, among) == ((), None)
    gone = Holders.among({JobId("a"): FLOW}, HELD).without({JobId("holder")})
    assert after_holders(job, gone) == ((), None)


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_each_end_frees_or_cancels_who_wants_a_failure(state: str) -> None:
    wait = Wait(JobId("b"), JobId("a"), Edge.FAILURE)
    cascade = run({"a": state}, [wait])
    assert cascade.freed_waits() == ([wait] if state == "failed" else [])
    assert list(cascade.cancelled) == ([] if state == "failed" else ["b"])


DEAD: dict[Any, str] = {"dead": "failed", "done": "succeeded"}


@pytest.mark.parametrize(
    ("jobs", "places"),
    [
        ([New("a", ("dead",), unique="k"), New("b", unique="k")], [1]),
        ([New("a", ("dead",), unique="k"), New("b", ("dead",), unique="k"), New("c", unique="k")], [1, 2]),
        ([New("a", ("dead",), unique="k"), New("b", unique="k"), New("c", unique="k")], [1]),
        ([New("a", ("dead",), unique="k"), New("b", unique="other")], []),
        ([New("a", ("done", "live"), unique="k"), New("b", unique="k")], []),
        ([New("a", unique="k"), New("b", ("dead",), unique="k"), New("c", unique="k")], [2]),
        ([New("a", ("dead",)), New("b", ("a",), unique="k"), New("c", unique="k")], [2]),
        ([New("a", unique="held"), New("b", ("a",), unique="k"), New("c", unique="k")], [2]),
        ([New("a", flow=FLOW), New("b", awaits_flow=FLOW, unique="k"), New("c", unique="k")], []),
        ([New("a", ("dead",), flow=FLOW), New("b", awaits_flow=FLOW, unique="k"), New("c", unique="k")], [2]),
    ],
)  # fmt: skip
def test_a_call_is_cut_before_a_job_whose_key_an_earlier_one_may_free_at_once(
    jobs: list[New], places: list[int]
) -> None:
    assert places_to_cut(jobs, DEAD) == places


def test_only_a_key_of_a_job_that_comes_after_others_may_be_free_at_once() -> None:
    assert not repeats_a_key([New("a", unique="k"), New("b", ("x",), unique="k")])
    assert repeats_a_key([New("a", ("x",), unique="k"), New("b", unique="k")])
    assert repeats_a_key([New("a", awaits_flow=FLOW, unique="k"), New("b", unique="k")])
    assert not repeats_a_key([New("a", ("x",)), New("b", ("x",))])
