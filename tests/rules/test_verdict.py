from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from onbeat.rules.verdict import (
    FailedJob,
    FaultLoad,
    QueueLoad,
    concerns,
    needs_look_first,
    served_by,
    short_of_disk,
    state_of_queue,
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
        "412 failed attempts in this hour and the last, 38 failed for good, 211 will be tried again."
    )


def test_counts_that_stopped_say_so() -> None:
    (one,) = concerns([], 1, [], NOW, faults=[fault(failed=1_001, waiting=0)])
    assert one.detail.endswith("and the last, more than 1,000 failed for good.")


def test_only_faults_that_need_somebody_are_concerns() -> None:
    quiet = (
        fault(is_silenced=True),
        fault(last_at=NOW - timedelta(minutes=61)),
        fault(failed=0, attempts=4),
    )
    assert concerns([], 1, [replace(failed("a"), fault="7")], NOW, faults=quiet[:1]) == []
    assert concerns([], 1, [], NOW, faults=quiet) == []
    (again,) = concerns([], 1, [], NOW, faults=[fault(failed=0, attempts=5, waiting=0)])
    assert (again.weight, again.detail) == (70, "5 failed attempts in this hour and the last.")
    (once,) = concerns([], 1, [], NOW, faults=[fault(failed=1, attempts=1, waiting=0)])
    assert once.detail == "1 failed attempt in this hour and the last, 1 failed for good."


def test_a_storm_leads_to_the_fault_that_fails_most_now() -> None:
    """What failed an hour ago is not its cause, however often it failed."""
    old = fault(fault="1", attempts=9_000)
    mine = fault(fault="2", last_at=NOW - timedelta(seconds=20))
    found = concerns([], 1, [], NOW, failed_by_minute=[0, 40], faults=[old, mine])
    assert (found[0].key, found[0].fault) == ("storm", "2")
    assert found[0].detail.endswith("Most: Timeout: no answer, in charge.")


def test_a_task_that_no_worker_knows_is_told_while_others_run() -> None:
    def told(alive: int, **tasks: int) -> list[tuple[str, str, str | None]]:
        found = concerns([], alive, [], NOW, unknown_tasks=tasks)
        return [(one.text, one.detail, one.task) for one in found]

    assert told(1) == told(0, export=1) == []
    assert told(1, export=1) == [
        ("No worker knows a task", "1 job waits until one does: export (1).", "export")
    ]
    ((text, detail, task),) = told(1, export=1_200, mail=1)
    assert (text, task) == ("No worker knows some tasks", None)
    assert detail == "1,201 jobs wait until one does: export (1,200), mail (1)."


def test_a_queue_may_say_when_it_is_late() -> None:
    slow = replace(late("reports", 300), late_after=timedelta(minutes=10))
    assert concerns([slow], 1, [], NOW) == []
    strict = replace(late("mail", 30), late_after=timedelta(seconds=10))
    assert [one.key for one in concerns([strict], 1, [], NOW)] == ["late:mail"]


def test_the_state_of_a_queue_is_one_word() -> None:
    busy = QueueLoad(name="a", due=3, running=2, running_max=2, oldest_due_at=NOW)
    queues = {
        "late": replace(busy, oldest_due_at=NOW - timedelta(minutes=2)),
        "full": busy,
        "paused": replace(busy, paused=True, oldest_due_at=NOW - timedelta(days=1)),
        "flowing": replace(busy, due=0, oldest_due_at=None),
        "idle": QueueLoad(name="idle"),
    }
    assert {name: state_of_queue(one, NOW) for name, one in queues.items()} == {
        name: name for name in queues
    }
    assert state_of_queue(replace(busy, running_max=3), NOW) == "flowing"


def test_queues_that_need_somebody_come_first() -> None:
    idle, full = QueueLoad(name="idle"), QueueLoad(name="full", due=1, running=1, running_max=1)
    queues = [
        idle,
        QueueLoad(name="rest", paused=True),
        QueueLoad(name="held", paused=True, due=1),
        QueueLoad(name="flow", due=2),
        full,
        late("old", 300),
    ]
    found = sorted(queues, key=lambda queue: needs_look_first(queue, NOW))
    assert [queue.name for queue in found] == ["old", "full", "held", "flow", "rest", "idle"]


def test_faults_of_the_same_weight_keep_their_order() -> None:
    """Whichever failed last: what stands first must not change with every attempt."""
    many, old, new = (
        fault(fault="1", failed=9),
        fault(fault="2", failed=3, first_at=NOW - timedelta(days=2)),
        fault(fault="3", failed=3),
    )
    for order in ([new, old, many], [many, new, old]):
        found = concerns([], 1, [], NOW, faults=order)
        assert [one.fault for one in found] == ["1", "2", "3"]
