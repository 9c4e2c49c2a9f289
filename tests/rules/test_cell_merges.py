"""Answers of several cells as one."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.fault import HOURS_KEPT, FaultJobs, FaultRecord
from onbeat.model.flow import FlowLook
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.page import Counted, Page
from onbeat.model.pulse import Depth, EndedCounts, Gauges
from onbeat.model.queue import GroupDepth, GroupDepths, Limits, Queue, WatchedQueue
from onbeat.model.transition import Stats
from onbeat.rules.cell_merges import (
    add_fault_jobs,
    add_gauges,
    add_stats,
    merge_counted,
    merge_faults,
    merge_flow_looks,
    merge_group_depths,
    merge_job_pages,
    merge_queues,
    merge_samples,
    merge_watched,
    with_sample,
)
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, an_id


def page_of(jobs: list[Job], before: str, limit: int, look: int) -> Page[Job]:
    """A page as a store makes it of these jobs, which are all that match; the newest first."""
    older = [job for job in jobs if not before or job.id < before]
    seen = older[:look]
    found = seen[:limit]
    if len(seen) > limit:
        return Page(tuple(found), None, found[-1].id)
    if len(older) > look:
        return Page(tuple(found), None, seen[-1].id, len(seen), seen[-1].created_at)
    return Page(tuple(found))


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.integers(1, 7),
    st.integers(1, 9),
)
def test_pages_of_cells_are_pages_of_all(cells: list[int], limit: int, look: int) -> None:
    jobs = [(cell, a_job()) for cell in cells]
    newest = sorted((job for _, job in jobs), key=lambda job: job.id, reverse=True)
    by_cell = [[job for at, job in reversed(jobs) if at == cell] for cell in range(4)]
    found: list[Job] = []
    before = ""
    for _ in range(len(jobs) + 1):
        pages = [page_of(own, before, limit, look) for own in by_cell]
        page = merge_job_pages(pages, limit)
        assert len(page.items) <= limit
        found += page.items
        if page.cursor is None:
            break
        assert not before or page.cursor < before
        before = page.cursor
    assert found == newest


def test_a_page_of_none_says_nothing() -> None:
    assert merge_job_pages([Page(()), Page(())], 10) == Page((), total=None)
    assert merge_job_pages([Page((), 0), Page((), 0)], 10).total == 0
    assert merge_job_pages([Page((a_job(),), 3), Page((), 4)], 10).total == 7


def test_a_search_that_stopped_says_how_many_were_looked_at() -> None:
    job = a_job()
    stopped = Page((job,), None, an_id(), searched=5, searched_to=NOW)
    older = a_job(id=JobId("01900000-0000-7000-8000-000000000000"))
    page = merge_job_pages([stopped, Page((older,))], 10)
    assert (page.searched, page.searched_to, page.cursor) == (5, NOW, stopped.cursor)
    assert older not in page.items


@pytest.mark.parametrize(
    ("counts", "most", "found"),
    [
        ([(2, False), (3, False)], 5, (5, False)),
        ([(2, False), (3, False)], 4, (4, True)),
        ([(2, True), (0, False)], 9, (2, True)),
        ([], 9, (0, False)),
    ],
)
def test_counts_are_added_up_to_a_bound(
    counts: list[tuple[int, bool]], most: int, found: tuple[int, bool]
) -> None:
    merged = merge_counted([Counted(count, more) for count, more in counts], most)
    assert (merged.count, merged.more) == found


def test_flows_are_listed_newest_first_and_their_counts_added() -> None:
    first, second, third = (JobId(an_id()) for _ in range(3))
    waiting = {JobState.WAITING: 2}
    looks = merge_flow_looks(
        [
            [FlowLook(third, waiting, more=False), FlowLook(first, waiting, more=False)],
            [FlowLook(third, {JobState.FAILED: 1}, more=True), FlowLook(second, {}, more=False)],
        ],
        2,
    )
    assert [one.flow for one in looks] == [third, second]
    assert looks[0].counts == {JobState.WAITING: 2, JobState.FAILED: 1}
    assert looks[0].more


def test_queues_of_one_name_are_one() -> None:
    limits = Limits(concurrency=3)
    merged = merge_queues(
        [
            [Queue(name="b", waiting=1, due=1, oldest_due_at=NOW), Queue(name="a", running=2)],
            [Queue(name="b", paused=True, limits=limits, waiting=4, oldest_due_at=NOW - SECOND)],
        ]
    )
    assert [queue.name for queue in merged] == ["a", "b"]
    assert merged[1] == Queue(
        name="b", paused=True, limits=limits, waiting=5, due=1, oldest_due_at=NOW - SECOND
    )
    assert merged[0].running == 2


def test_a_sample_says_what_waits_in_queues() -> None:
    sampled = Gauges(at=NOW, queues={"b": Depth(waiting=9, due=8), "c": Depth(waiting=1)})
    queues = with_sample([Queue(name="a", waiting=5), Queue(name="b", running=2)], sampled)
    assert [(one.name, one.waiting, one.due, one.running) for one in queues] == [
        ("a", 0, 0, 0),
        ("b", 9, 8, 2),
        ("c", 1, 0, 0),
    ]


def test_groups_are_the_deepest_first_and_turns_those_of_one_cell() -> None:
    merged = merge_group_depths(
        [
            GroupDepths((GroupDepth(group="x", waiting=3, starts_since=4),), more=False),
            GroupDepths(
                (
                    GroupDepth(group="x", running=2),
                    GroupDepth(group="y", waiting=9, starts_since=1),
                ),
                more=True,
            ),
        ]
    )
    assert merged.more
    assert [(one.group, one.waiting, one.running, one.starts_since) for one in merged.groups] == [
        ("y", 9, 0, 1),
        ("x", 3, 2, None),
    ]


def test_a_watched_queue_is_as_late_as_where_it_is_latest() -> None:
    queue = WatchedQueue(name="mail", paused=False, late_after=MINUTE)
    late = replace(queue, late_since=NOW, oldest=JobId(an_id()), oldest_due_at=NOW - HOUR)
    later = replace(queue, oldest=JobId(an_id()), oldest_due_at=NOW)
    assert merge_watched([[later], [late], [queue]]) == [late]
    assert merge_watched([[queue], [queue]]) == [queue]


def test_samples_are_added_by_the_span_that_they_are_of() -> None:
    def sample(seconds: int, waiting: int) -> Gauges:
        at = NOW + timedelta(seconds=seconds)
        return Gauges(at=at, total=Depth(waiting=waiting), workers=1)

    merged = merge_samples([[sample(21, 5), sample(12, 1)], [sample(23, 7), sample(11, 2)]], 10, 9)
    assert [one.total.waiting for one in merged] == [12, 3]
    assert merged[0].at == NOW + timedelta(seconds=21)
    assert merged[0].workers == 2


def test_ended_jobs_are_told_where_every_cell_counted_them() -> None:
    ended = EndedCounts(at=NOW, took=1.0, jobs={"succeeded": 3})
    with_ended = Gauges(at=NOW, ended=ended)
    assert add_gauges([with_ended, with_ended]).ended == replace(ended, jobs={"succeeded": 6})
    assert add_gauges([with_ended, Gauges(at=NOW)]).ended is None


def test_stats_are_added_and_what_was_sampled_is_that_of_the_sample() -> None:
    one = Stats(
        jobs={"waiting": 1, "succeeded": 2, "failed": 0},
        schedules={"active": 1},
        workers=1,
        oldest_due_seconds=5.0,
        unknown_tasks={"x": 1},
    )
    added = add_stats([one, replace(one, oldest_due_seconds=9.0)], NOW, None, None)
    assert added.jobs == {"waiting": 2, "succeeded": 4, "failed": 0}
    assert (added.workers, added.schedules, added.oldest_due_seconds) == (2, {"active": 2}, 9.0)
    assert added.unknown_tasks == {"x": 2}
    sampled = Gauges(at=NOW, total=Depth(waiting=7, oldest_due_at=NOW - SECOND))
    told = add_stats([one, one], NOW, {"succeeded": 50}, sampled)
    assert told.jobs == {"waiting": 7, "succeeded": 50, "failed": 0}
    assert (told.oldest_due_seconds, told.unknown_tasks) == (1.0, {})


def a_fault(last: int, *hours: int) -> FaultRecord:
    return FaultRecord(
        fault=7, task="t", queue="q", title="e", place="p",
        first_at=NOW, last_at=NOW + last * HOUR, attempts=sum(hours), hours=hours,
    )  # fmt: skip


def test_hours_of_a_fault_are_added_at_the_same_hours() -> None:
    (merged,) = merge_faults([[a_fault(3, 1, 2)], [a_fault(5, 4, 0, 8)]])
    assert merged.last_at == NOW + 5 * HOUR
    assert merged.hours == (1, 6, 0, 8)
    assert merged.attempts == 15


def test_hours_that_are_too_old_are_left_out() -> None:
    (merged,) = merge_faults([[a_fault(0, 9)], [a_fault(HOURS_KEPT, 1)]])
    assert merged.hours == (1,)
    (merged,) = merge_faults([[a_fault(0, 9)], [a_fault(HOURS_KEPT - 1, 1)]])
    assert len(merged.hours) == HOURS_KEPT
    assert (merged.hours[0], merged.hours[-1]) == (9, 1)


def test_jobs_of_faults_are_counted_up_to_a_bound() -> None:
    added = add_fault_jobs([{1: FaultJobs(3, 1)}, {1: FaultJobs(4, 1), 2: FaultJobs(1, 0)}], 5)
    assert added == {1: FaultJobs(5, 2), 2: FaultJobs(1, 0)}
