from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from onbeat.rules.verdict import (
    FailedJob,
    FaultLoad,
    QueueLoad,
    concerns,
    served_by,
    short_of_disk,
)

NOW = datetime(2026, 11, 23, 3, 12, tzinfo=UTC)


def failed(id: str, error: str = "Timeout: no answer", minutes: float = 5) -> FailedJob:
    return FailedJob(id=id, name="charge", at=NOW - timedelta(minutes=minutes), error=error)


def late(name: str, seconds: float) -> QueueLoad:
    return QueueLoad(name=name, due=3, oldest_due_at=NOW - timedelta(seconds=seconds))


def texts(queues: Sequence[QueueLoad], alive: int, failures: Sequence[FailedJob]) -> list[str]:
    return [concern.text for concern in concerns(queues, alive, failures, NOW)]


def test_all_is_on_time_where_nothing_is_wrong() -> None:
    assert concerns([late("mail", 60)], 1, [failed("a", minutes=60.1)], NOW) == []


def test_the_worst_comes_first() -> None:
    held = QueueLoad(name="bulk", paused=True, due=2, oldest_due_at=NOW - timedelta(days=1))
    assert texts([held, late("mail", 61)], 0, [failed("a")]) == [
        "No worker is alive",
        "charge failed",
        "Queue mail is late",
        "Queue bulk is paused",
    ]


def test_queues_that_are_late_for_want_of_workers_are_shown_and_not_told() -> None:
    queues = [late(f"q{number}", 300) for number in range(40)]
    found = concerns(queues, 0, [], NOW)
    assert len(found) == 41
    assert [one.key for one in found if one.is_alert] == ["no-worker"]
    assert len([one for one in concerns(queues, 1, [], NOW) if one.is_alert]) == 40


def test_failures_with_one_error_are_one_concern_and_lead_to_the_newest() -> None:
    several = [failed("b"), failed("a"), failed("c", "ValueError: wrong")]
    found = concerns([], 1, several, NOW)
    assert [(one.job, one.detail) for one in found] == [
        ("b", "Timeout: no answer"),
        ("c", "ValueError: wrong"),
    ]


def test_nobody_need_run_what_is_not_due() -> None:
    assert texts([QueueLoad(name="mail"), QueueLoad(name="b", paused=True)], 0, []) == []


def test_a_queue_that_no_live_worker_serves_is_worse_than_late() -> None:
    queues = [late("mail", 300), late("bulk", 300), QueueLoad(name="idle")]
    found = concerns(queues, 1, [], NOW, {"bulk"}.__contains__)
    assert [(one.key, one.level) for one in found] == [
        ("no-worker:mail", "fail"),
        ("late:bulk", "warn"),
    ]


def test_a_worker_without_a_list_of_queues_serves_all() -> None:
    some = served_by([("bulk",), ("mail", "default")])
    assert [some(queue) for queue in ("bulk", "mail", "other")] == [True, True, False]
    assert served_by([("bulk",), None])("other")
    assert not served_by([])("bulk")
    assert not served_by([()])("bulk")


def test_a_disk_that_is_nearly_full_says_why() -> None:
    concern = short_of_disk("only 2 % is free")
    assert (concern.key, concern.level, concern.detail) == ("disk", "fail", "only 2 % is free")


def storms(*by_minute: int | None) -> list[str]:
    return [concern.detail for concern in concerns([], 1, [], NOW, failed_by_minute=by_minute)]


def test_a_storm_of_failures_is_told_before_single_ones() -> None:
    found = concerns([], 1, [failed("a")], NOW, failed_by_minute=[1, 1, 1, 40])
    assert [concern.text for concern in found] == ["Attempts are failing now", "charge failed"]
    assert found[0].state == "failed"
    assert found[0].detail == "40 failed in the last minute; the median of this hour is 1."


def test_a_storm_is_many_and_much_more_than_usual() -> None:
    assert storms(0, 0, 4) == []
    assert len(storms(0, None, 5)) == 1
    assert storms(9, 10, 11, 49) == []
    assert len(storms(9, 10, 11, 50)) == 1
    assert len(storms(6)) == 1, "a new service has no usual"
    assert storms(0, 0, None) == storms() == []


def fault(**fields: object) -> FaultLoad:
    load = FaultLoad(
        fault="7",
        title="Timeout: no answer",
        name="charge",
        first_at=NOW - timedelta(days=1),
        last_at=NOW - timedelta(minutes=5),
        attempts=412,
        failed=38,
        waiting=211,
    )
    return replace(load, **fields)


def test_a_fault_tells_of_all_its_jobs_at_once() -> None:
    mine = replace(failed("a"), fault="7")
    found = concerns([], 1, [mine, failed("b", "other")], NOW, faults=[fault()])
    assert [(one.text, one.fault, one.job) for one in found] == [
        ("charge fails: Timeout: no answer", "7", None),
        ("charge failed", None, "b"),
    ]
    assert found[0].detail == (
        "412 failed attempts in the last hours, 38 failed for good, 211 will be tried again."
    )


def test_counts_that_stopped_say_so() -> None:
    (one,) = concerns([], 1, [], NOW, faults=[fault(failed=1_001, waiting=0)])
    assert one.detail.endswith("hours, more than 1,000 failed for good.")


def test_only_faults_that_need_somebody_are_concerns() -> None:
    quiet = (
        fault(is_silenced=True),
        fault(last_at=NOW - timedelta(minutes=61)),
        fault(failed=0, attempts=4),
    )
    assert concerns([], 1, [replace(failed("a"), fault="7")], NOW, faults=quiet[:1]) == []
    assert concerns([], 1, [], NOW, faults=quiet) == []
    (again,) = concerns([], 1, [], NOW, faults=[fault(failed=0, attempts=5, waiting=0)])
    assert (again.weight, again.detail) == (70, "5 failed attempts in the last hours.")
