from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.flow import Awaited
from onbeat.model.ids import JobId
from onbeat.model.job import Edge
from onbeat.rules.flows import after_flow, in_order, link, link_all

FLOW = JobId("01900000-0000-7000-8000-00000000f10e")
IDS = [f"01900000-0000-7000-8000-{number:012x}" for number in range(10)]


def waits(*texts: str) -> list[Awaited]:
    return [Awaited(text) for text in texts]


def test_names_become_ids_in_any_order() -> None:
    linked, order = link_all(
        ["last", "first"], [[Awaited("first", Edge.END)], waits(IDS[9])], IDS[:2], FLOW
    )
    assert list(order) == [1, 0]
    assert (linked[0].after, linked[0].edges) == ((IDS[1],), {IDS[1]: Edge.END})
    assert (linked[1].after, linked[1].edges) == ((IDS[9],), None)


@pytest.mark.parametrize(
    ("names", "awaited", "field", "words"),
    [
        (["a", "a"], [[], []], "jobs[1].name", "jobs 0 and 1 are both named 'a'"),
        (["a"], [waits("b")], "jobs[0].after", "no job of this request is named 'b'"),
        (["a"], [waits("a")], "jobs[0].after", "a → a"),
        (["a", "b"], [waits("b"), waits("a")], "jobs[0].after", "a → b → a"),
        (["x", "a", "b"], [waits("b"), waits("b"), waits("a")], "jobs[2].after", "b → a → b"),
        (
            ["a", "b"],
            [[], [Awaited("a"), Awaited("a", Edge.END)]],
            "jobs[1].after",
            "twice, with different ends",
        ),
    ],
)
def test_a_fault_is_named(names: Any, awaited: Any, field: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        link_all(names, awaited, IDS[: len(names)], FLOW)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_those_that_wait_for_the_flow_are_no_members() -> None:
    names = ["a", "b", "c", "d"]
    linked, _ = link_all(names, [[], waits("c"), waits("sent"), waits("a")], IDS[:4], FLOW)
    assert [one.flow == FLOW for one in linked] == [True, False, False, True]
    assert linked[2].awaits_flow == FLOW
    assert linked[1].flow == linked[2].flow == after_flow(FLOW)


@pytest.mark.parametrize("awaited", [[waits("sent")], [waits("sent"), waits("a")]])
def test_where_all_wait_for_the_rest_is_refused(awaited: Any) -> None:
    with pytest.raises(Invalid, match="no job is sent that does not wait"):
        link_all(["a", "b"][: len(awaited)], awaited, IDS[: len(awaited)], FLOW)


def test_a_long_cycle_is_named_in_part() -> None:
    count = 1_000
    with pytest.raises(Invalid, match=r"job 9 → … → job 0; leave"):
        in_order([[(place + 1) % count] for place in range(count)], [None] * count)


def test_the_same_edge_twice_is_one() -> None:
    assert link(waits("a", "a"), {"a": JobId(IDS[0])}, "after").after == (IDS[0],)


@given(st.lists(st.sets(st.integers(0, 7)), min_size=8, max_size=8))
def test_each_job_is_stored_behind_those_that_it_comes_after(drawn: list[set[int]]) -> None:
    after = [sorted(others) for others in drawn]
    try:
        order = list(in_order(after, [None] * len(after)))
    except Invalid:
        assert has_cycle(after)
    else:
        assert sorted(order) == list(range(len(after)))
        place = {job: at for at, job in enumerate(order)}
        assert all(place[other] < place[job] for job in order for other in after[job])


def has_cycle(after: list[list[int]]) -> bool:
    """By taking away what waits for nothing until nothing more goes."""
    left = {job: set(others) for job, others in enumerate(after)}
    while free := [job for job, others in left.items() if not others & left.keys()]:
        for job in free:
            del left[job]
    return bool(left)
