"""A flow as a drawing: layers by the longest way, an order that follows the links, and bounds."""

import re
from itertools import pairwise

import pytest

from onbeat.dashboard.drawing.graph import (
    JOINT,
    GraphJob,
    blocking,
    drawing,
    levels,
    links_of,
)
from onbeat.dashboard.drawing.layers import GAP, JOB_HEIGHT, Link, Waypoint, laid_out, layers_of
from onbeat.model.job import Edge, JobState
from onbeat.model.limits import GRAPH_JOBS_MAX, GRAPH_WAYPOINTS_MAX
from onbeat.wire.flows import FlowEdge

FLOW = "the-flow"


def link(source: str, target: str, kind: str = "success") -> Link:
    return Link(source, target, kind)


def chain(*ids: str) -> list[Link]:
    return [link(*pair) for pair in pairwise(ids)]


def a_graph_job(id: str, state: JobState = JobState.WAITING) -> GraphJob:
    return GraphJob(id, f"job {id}", state, "wait")


def test_a_job_stands_behind_the_longest_way_to_it() -> None:
    links = [*chain(*"abcd"), link("a", "d"), link("x", "d")]
    assert layers_of("abcdx", links) == [["a", "x"], ["b"], ["c"], ["d"]]


def test_links_to_jobs_that_are_gone_are_left_out() -> None:
    assert layers_of("ab", [link("gone", "a"), link("a", "b")]) == [["a"], ["b"]]


def test_a_ring_does_not_keep_the_others_from_being_drawn() -> None:
    links = [link("a", "b"), link("b", "a"), link("c", "d")]
    assert layers_of("abcd", links) == [["a", "b", "c"], ["d"]]
    assert drawing([a_graph_job(id) for id in "abcd"], links).count("<a ") == 4


def test_the_order_of_a_layer_follows_the_links_into_it() -> None:
    links = [link("a", "z"), link("b", "y"), link("c", "x")]
    layout = laid_out("abcxyz", links)
    assert layout.layers == [["a", "b", "c"], ["z", "y", "x"]]


def test_nothing_overlaps_and_a_chain_is_straight() -> None:
    fan = [*(link("a", id) for id in "bcd"), *(link(id, "e") for id in "bcd"), *chain(*"efg")]
    layout = laid_out("abcdefg", fan)
    for layer in layout.layers:
        places = [layout.middles[spot] for spot in layer]
        for one, other in pairwise(places):
            assert other - one >= JOB_HEIGHT + GAP - 0.01
    assert len({round(layout.middles[id], 3) for id in "efg"}) == 1


def test_a_link_passes_the_layers_between_beside_their_jobs() -> None:
    layout = laid_out("abcd", [*chain(*"abcd"), link("a", "d", "failure")])
    passed = [spot for layer in layout.layers for spot in layer if isinstance(spot, Waypoint)]
    assert passed == [Waypoint("a", "failure", 1), Waypoint("a", "failure", 2)]
    for spot in passed:
        beside = "bc"[spot.layer - 1]
        assert abs(layout.middles[spot] - layout.middles[beside]) > JOB_HEIGHT / 2


def test_too_many_passes_are_drawn_straight() -> None:
    ids = [f"{number}" for number in range(GRAPH_JOBS_MAX)]
    links = [*chain(*ids), *(link(id, ids[-1]) for id in ids[:-2])]
    assert sum(range(len(ids) - 1)) > GRAPH_WAYPOINTS_MAX
    layout = laid_out(ids, links)
    assert not any(isinstance(spot, Waypoint) for layer in layout.layers for spot in layer)
    assert len(layout.pieces) == len(links)


@pytest.mark.parametrize("on", list(Edge))
def test_each_kind_of_link_has_its_line(on: Edge) -> None:
    links = links_of(FLOW, "ab", [FlowEdge("b", "a", on)])
    drawn = drawing([a_graph_job("a"), a_graph_job("b")], links)
    assert re.findall(r'class="edge (\w+)"', drawn) == [str(on)]
    assert drawn.count("l7 4l-7 4z") == 1


def test_what_waits_for_all_that_were_sent_comes_behind_a_joint() -> None:
    edges = [
        FlowEdge("b", "a", Edge.SUCCESS),
        FlowEdge("sum", "sent", Edge.END),
        FlowEdge("mail", "sum", Edge.SUCCESS),
    ]
    links = links_of(FLOW, ["a", "b", "c", "sum", "mail"], edges)
    assert set(links) == {
        link("a", "b"),
        link("sum", "mail"),
        link("b", JOINT, "end"),
        link("c", JOINT, "end"),
        link(JOINT, "sum", "end"),
    }
    jobs = [a_graph_job(id) for id in ("a", "b", "c", "sum", "mail")]
    names = [[job.id for job in level.jobs] for level in levels(jobs, links)]
    assert names == [["a", "c"], ["b"], ["sum"], ["mail"]]
    assert 'class="joint"' in drawing(jobs, links)


def test_the_sender_leads_to_what_it_sent() -> None:
    edges = [FlowEdge("b", "a", Edge.SUCCESS)]
    assert links_of("s", ["s", "a", "b"], edges) == [link("a", "b"), link("s", "a", "sent")]


def test_many_that_wait_for_many_cost_one_link_each() -> None:
    ids = [f"{number}" for number in range(1_000)]
    edges = [FlowEdge(id, "sent", Edge.SUCCESS) for id in ids[500:]]
    assert len(links_of(FLOW, ids, edges)) == len(ids)


def test_the_blocking_ones_are_unfinished_and_wait_for_nobody() -> None:
    states = {"a": JobState.SUCCEEDED, "b": JobState.RUNNING, "e": JobState.RUNNING}
    jobs = [a_graph_job(id, states.get(id, JobState.WAITING)) for id in "abcdef"]
    links = [link("a", "b"), *chain(*"bcd"), link("e", "d"), link("e", "c")]
    assert [job.id for job in blocking(jobs, links, 10)] == ["e", "b"]
    assert [job.id for job in blocking(jobs, links, 1)] == ["e"]
    joined = [link("b", JOINT), link("e", JOINT), link(JOINT, "f"), link("f", "d")]
    assert [job.id for job in blocking(jobs, joined, 10)] == ["b", "e"]


def test_long_names_and_markup_stay_text() -> None:
    job = GraphJob("a", "<b>" + "x" * 60, JobState.FAILED, "fail")
    drawn = drawing([job, a_graph_job("b")], [])
    assert "<b>" not in drawn
    assert f"&lt;b&gt;{'x' * 16}…" in drawn
    assert f'aria-label="&lt;b&gt;{"x" * 16}… failed, &lt;b&gt;{"x" * 60}"' in drawn
    assert 'href="#m-failed"' in drawn


def test_a_drawing_of_the_largest_flow_is_small() -> None:
    ids = [f"{number}" for number in range(GRAPH_JOBS_MAX)]
    jobs = [a_graph_job(id) for id in ids]
    links = [link(ids[n // 2], ids[n]) for n in range(1, len(ids))]
    assert len(drawing(jobs, links)) < 150_000
