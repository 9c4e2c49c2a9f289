"""Which jobs a bulk is for, and how it goes on."""

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.bulk import Bulk, BulkAction, BulkId, BulkState, Chunk
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import BULK_RATE_MAX, BULK_UNDO, BULK_UNDO_MIN
from onbeat.model.page import Counted, JobFilter, Page
from onbeat.rules.bulks import (
    Acted,
    above,
    after_chunk,
    audit_of,
    chunk_of,
    ended,
    filter_of,
    is_due,
    new_bulk,
    still_fits,
    stopped,
)
from onbeat.testing.build import HOUR, NOW, SECOND, TICK, a_job, an_id


def a_bulk(count: int = 1, *, more: bool = False, do: BulkAction = BulkAction.RETRY) -> Bulk:
    where = filter_of(do, JobFilter(task="work", label=("a:b",)), NOW)
    id = BulkId(an_id())
    return new_bulk(id, do, where, JobId(an_id()), Counted(count, more=more), "boss", NOW)


def test_an_action_is_for_one_state() -> None:
    assert filter_of(BulkAction.RETRY, JobFilter(), NOW).state is JobState.FAILED
    assert filter_of(BulkAction.CANCEL, JobFilter(), NOW).state is JobState.WAITING
    assert filter_of(BulkAction.RESCHEDULE, JobFilter(), NOW).state is JobState.WAITING
    cancelled = JobFilter(state=JobState.CANCELLED)
    assert filter_of(BulkAction.RETRY, cancelled, NOW).state is JobState.CANCELLED
    with pytest.raises(Invalid, match="must be waiting or running for a cancel"):
        filter_of(BulkAction.CANCEL, cancelled, NOW)


def test_a_retry_leaves_later_failures_alone() -> None:
    assert filter_of(BulkAction.RETRY, JobFilter(), NOW).until == NOW + TICK
    assert filter_of(BulkAction.RETRY, JobFilter(until=NOW - HOUR), NOW).until == NOW - HOUR
    assert filter_of(BulkAction.CANCEL, JobFilter(), NOW).until is None


@pytest.mark.parametrize(
    ("count", "more", "later"),
    [(BULK_UNDO_MIN, False, False), (BULK_UNDO_MIN + 1, False, True), (1, True, True)],
)
def test_a_large_bulk_starts_later(count: int, more: bool, later: bool) -> None:
    bulk = a_bulk(count, more=more)
    assert bulk.starts_at == (NOW + BULK_UNDO if later else NOW)
    assert is_due(bulk, bulk.starts_at)
    assert not is_due(bulk, bulk.starts_at - TICK)


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("0190ffff-0000-7000-8000-00000000000f", "0190ffff-0000-7000-8000-000000000010"),
        ("0190ffff-0000-7000-8000-ffffffffffff", "0190ffff-0000-7000-8001-000000000000"),
    ],
)
def test_the_id_above(id: str, expected: str) -> None:
    assert above(JobId(id)) == expected


def test_a_chunk_moves_the_bulk_and_holds_the_rate() -> None:
    bulk = a_bulk(5)
    moved = after_chunk(bulk, Chunk(cursor=JobId("1"), done=2, skipped=1, failed=1), NOW)
    assert (moved.cursor, moved.state) == ("1", BulkState.RUNNING)
    assert (moved.done, moved.skipped, moved.failed) == (2, 1, 1)
    assert moved.next_at == NOW + 4 * SECOND / BULK_RATE_MAX


def test_jobs_that_were_not_met_again_are_skipped_at_the_end() -> None:
    last = after_chunk(a_bulk(5), Chunk(cursor=None, done=2, failed=1), NOW)
    assert (last.state, last.skipped, last.finished_at) == (BulkState.DONE, 2, NOW)
    uncounted = after_chunk(a_bulk(5, more=True), Chunk(cursor=None, done=2), NOW)
    assert uncounted.skipped == 0
    assert ended(replace(a_bulk(1), done=3), BulkState.DONE, NOW).skipped == 0


def test_a_chunk_counts_what_was_changed() -> None:
    jobs = (a_job(), a_job())
    page = Page(items=jobs, cursor=jobs[-1].id)
    assert chunk_of(page, Acted(1)) == Chunk(cursor=jobs[-1].id, done=1, skipped=1)
    assert chunk_of(Page(jobs), Acted(failed=2)) == Chunk(cursor=None, failed=2)


def test_only_what_still_matches_is_changed() -> None:
    bulk = a_bulk()
    job = a_job(state=JobState.FAILED, finished_at=NOW, labels={"a": "b"})
    assert still_fits(bulk, job)
    assert not still_fits(bulk, replace(job, state=JobState.WAITING, finished_at=None))
    assert not still_fits(bulk, replace(job, sensitive=True))
    waiting = a_job(sensitive=True, labels={"a": "b"})
    assert still_fits(a_bulk(do=BulkAction.CANCEL), waiting)


def test_a_bulk_that_is_over_stays() -> None:
    stop = stopped(a_bulk(), NOW)
    assert (stop.state, stop.next_at, stop.finished_at) == (BulkState.STOPPED, None, NOW)
    assert stopped(stop, NOW + HOUR) == stop


def test_the_audit_record_has_the_filter_and_the_counts() -> None:
    bulk = a_bulk(3)
    assert audit_of(bulk).outcome == "begun"
    record = audit_of(ended(replace(bulk, done=3), BulkState.DONE, NOW))
    assert (record.id, record.actor, record.outcome) == (bulk.id, "boss", "done")
    assert record.object == f"bulk/{bulk.id}"
    summary = msgspec.json.decode(record.summary)
    assert summary["where"] == {
        "state": "failed",
        "task": "work",
        "label": ["a:b"],
        "until": "2030-01-01T12:00:00.000001Z",
    }
    assert (summary["counted"], summary["done"], summary["failed"]) == (3, 3, 0)
