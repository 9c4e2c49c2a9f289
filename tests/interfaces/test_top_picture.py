"""What `onbeat top` makes of answers: the picture, and its words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onbeat.cli.top.answers import Answers, SlowAnswers
from onbeat.cli.top.picture import picture_of
from onbeat.cli.top.records import Picture
from onbeat.cli.top.words import Column, Row, Rows, sparks, tables, tiles, verdict, widths
from onbeat.wire.alerts import AlertAnswer, AlertsAnswer
from onbeat.wire.failures import FailureInfo, FailuresAnswer
from onbeat.wire.limits import LimitsAnswer
from onbeat.wire.pulses import DepthAnswer, PointAnswer, PulsesAnswer, SampleAnswer
from onbeat.wire.queues import QueueAnswer, QueuesAnswer
from onbeat.wire.requests import SchedulesAnswer
from onbeat.wire.workers import RemoteWorkerAnswer, RunningAnswer, WorkerAnswer, WorkersAnswer

NOW = datetime(2026, 11, 23, 3, 12, 44, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = 60 * SECOND


def points(*newest: PointAnswer) -> tuple[PointAnswer, ...]:
    """An hour of which only the newest points were measured."""
    first = NOW - 360 * 10 * SECOND
    gaps = [PointAnswer(at=first + n * 10 * SECOND, seconds=10.0) for n in range(360)]
    return (*gaps[: 360 - len(newest)], *newest)


def point(started: int, failed: int = 0) -> PointAnswer:
    return PointAnswer(at=NOW, seconds=10.0, started=started, succeeded=0, failed=failed)


def queue(name: str, **changes: Any) -> QueueAnswer:
    fields = {"paused": False, "waiting": 0, "due": 0, "running": 0, "oldest_due_at": None}
    return QueueAnswer(name=name, **{**fields, "limits": LimitsAnswer(), **changes})


def worker(pid: int, **changes: Any) -> WorkerAnswer:
    fields = {"id": f"w{pid}", "host": "vm", "pid": pid, "alive": True, "concurrency": 10}
    fields |= {"started_at": NOW, "beat_at": NOW - SECOND, "running": 0, "tasks": (), "jobs": ()}
    return WorkerAnswer(**{**fields, **changes})


def failure(fault: str, **changes: Any) -> FailureInfo:
    fields: dict[str, Any] = {"task": "billing.charge", "queue": "billing", "place": "x"}
    fields |= {"title": "Timeout: #"}
    fields |= {"first_at": NOW, "last_at": NOW - MINUTE, "attempts": 9, "failed": 3, "waiting": 0}
    fields |= {"hours": (9,), "sample_job": None, "silenced_until": None, "note": None}
    fields |= {"process": None, "operator_note": None}
    return FailureInfo(fault=fault, **{**fields, **changes})


def alert(key: str, **changes: Any) -> AlertAnswer:
    fields = {"level": "fail", "text": "T", "detail": "D.", "since": NOW - 21 * MINUTE}
    fields |= {"ended_at": None, "announced": True, "silenced": False, "queue": None}
    fields |= {"times": 1, "job_id": None, "fault": None}
    return AlertAnswer(key=key, **{**fields, **changes})


def sample(**unknown: int) -> SampleAnswer:
    total = DepthAnswer(waiting=0, due=0, running=0, blocked=0, oldest_due_at=None)
    return SampleAnswer(
        at=NOW,
        age=0.0,
        total=total,
        queues={},
        queues_more=0,
        unknown_tasks=unknown,
        dead_letters=0,
        workers=1,
        slots=1,
        ended=None,
        ended_at=None,
    )


def picture(
    *,
    queues: tuple[QueueAnswer, ...] = (),
    workers: tuple[WorkerAnswer, ...] = (),
    remote: tuple[RemoteWorkerAnswer, ...] = (),
    failures: tuple[FailureInfo, ...] = (),
    alerts: tuple[AlertAnswer, ...] = (),
    hour: tuple[PointAnswer, ...] = (),
    newest: SampleAnswer | None = None,
    fires: int | None = 0,
) -> Picture:
    pulses = PulsesAnswer(span="hour", points=points(*hour), sample=newest)
    schedules = SchedulesAnswer(schedules=(), page=1, limit=100, total=0)
    return picture_of(
        Answers(
            at=NOW,
            slow=SlowAnswers(hour=pulses, schedules=schedules, fires=fires),
            queues=QueuesAnswer(queues=queues, page=1, limit=50, total=len(queues)),
            workers=WorkersAnswer(workers=workers, remote=remote),
            failures=FailuresAnswer(failures=failures, total=0, limit=50, cursor=None),
            alerts=AlertsAnswer(alerts=alerts, silences=()),
        )
    )


def cells(shown: Picture, table: int) -> list[tuple[str, ...]]:
    return [row.cells for row in tables(shown, UTC)[table].rows]


def test_all_is_on_time() -> None:
    head, detail = verdict(picture(), UTC)
    assert (head.text, head.tone, detail.text) == ("All on time", "ok", "No attempt has failed.")
    _, detail = verdict(picture(failures=(failure("1", last_at=NOW - 120 * MINUTE),)), UTC)
    assert detail.text == "The last failed attempt was at 01:12:44, 2 h ago."


def test_the_worst_comes_first_with_the_time_since_when() -> None:
    """What is wrong is found anew, so it is there where no service raises alerts."""
    due = queue("mail", due=3, waiting=3, oldest_due_at=NOW - 2 * MINUTE)
    held = queue("reports", paused=True, due=1, waiting=1)
    shown = picture(queues=(due, held), alerts=(alert("no-worker"), alert("late:gone")))
    head, detail = verdict(shown, UTC)
    assert (head.text, head.tone) == ("No worker is alive", "fail")
    assert detail.text == (
        "Since 02:51:44, 21 min. 3 jobs are due, and nobody runs them. And 2 more."
    )
    assert [one.key for one in shown.troubles] == ["no-worker", "late:mail", "paused:reports"]
    _, untold = verdict(picture(queues=(due,)), UTC)
    assert untold.text == "3 jobs are due, and nobody runs them. And 1 more."


def test_a_worker_of_other_queues_does_not_serve() -> None:
    due = queue("mail", due=3, waiting=3, oldest_due_at=NOW - SECOND)
    other, every = worker(1, queues=("bulk",)), worker(2, queues=UNSET)
    assert picture(queues=(due,), workers=(other,)).troubles[0].key == "no-worker:mail"
    assert not picture(queues=(due,), workers=(other, every)).troubles


def test_what_only_the_service_sees_comes_from_its_alerts() -> None:
    disk = alert("disk", text="The disk is full")
    shown = picture(alerts=(disk,), workers=(worker(1),), newest=sample(**{"a.b": 3}))
    assert [(one.key, one.level) for one in shown.troubles] == [
        ("disk", "fail"),
        ("unknown-tasks", "warn"),
    ]
    assert shown.troubles[1].detail == "3 jobs wait until one does: a.b (3)."


def test_tiles_tell_numbers_and_what_they_are_of() -> None:
    old = queue("billing", due=2, waiting=12_480, running=3, oldest_due_at=NOW - 74 * SECOND)
    held = queue("held", paused=True, due=5, waiting=5, oldest_due_at=NOW - 999 * SECOND)
    shown = picture(
        queues=(old, held),
        workers=(worker(1), worker(2, alive=False)),
        hour=tuple(point(20, 1) for _ in range(6)),
        fires=14,
    )
    assert [(tile.value, tile.note) for tile in tiles(shown)] == [
        ("2/s", "last minute"),
        ("0.1/s", "last minute"),
        ("1 min 14 s", "billing"),
        ("7", "12k waiting"),
        ("3 of 10", "1, 1 silent"),
        ("14", "occurrences"),
    ]


def test_what_was_not_measured_is_unknown_and_not_zero() -> None:
    names = [(tile.name, tile.value) for tile in tiles(picture(fires=None))]
    assert names[:2] == [("Started", "unknown"), ("Failed", "unknown")]
    assert names[-1] == ("Next 10 min", "many")
    gap, half = picture(), picture(hour=(point(0), point(10, 10), point(20)))
    assert [bars.strip() for _, bars, _ in sparks(gap.rates, 360)] == ["", ""]
    (_, started, most), (_, failed, _) = sparks(half.rates, 360)
    assert (started.strip(), failed.strip(), most) == ("▁▅█", "▁█▁", "most 2/s")
    assert len(sparks(half.rates, 50)[0][1]) <= 50


def test_queues_show_limits_and_pauses_those_that_need_somebody_first() -> None:
    limited = queue("mail", due=4, waiting=9, running=10, limits=LimitsAnswer(concurrency=10))
    deep = queue("bulk", paused=True, due=40, waiting=40, oldest_due_at=NOW - SECOND)
    assert cells(picture(queues=(limited, deep)), 0) == [
        ("mail", "4", "9", "10 of 10", "", "limited"),
        ("bulk", "40", "40", "0", "1.0 s", "paused"),
    ]


def test_failures_show_counts_up_to_their_limit_and_silence() -> None:
    many = failure("1", failed=1_001, waiting=1_000)
    quiet = failure("2", silenced_until=NOW + MINUTE)
    assert cells(picture(failures=(many, quiet)), 1) == [
        ("Timeout: #", "billing.charge", "> 1,000", "1,000", "60 s ago"),
        ("Timeout: #", "billing.charge", "3", "0", "silenced"),
    ]


def test_silent_workers_come_first_and_remote_ones_last() -> None:
    jobs = tuple(
        RunningAnswer(id=str(n), task=f"t{n}", attempt=1, started_at=NOW - n * SECOND)
        for n in (1, 5, 3)
    )
    away = RemoteWorkerAnswer(name="far", running=1, jobs=())
    silent = worker(2, alive=False, beat_at=NOW - 3 * MINUTE)
    shown = picture(workers=(worker(1, running=3, jobs=jobs), silent), remote=(away,))
    assert cells(shown, 2) == [
        ("vm:2", "0 of 10", "silent, heard 3 min ago", ""),
        ("vm:1", "3 of 10", "alive", "t5, 5.0 s"),
        ("far", "1", "remote", ""),
    ]


def test_text_from_outside_stays_on_its_line_and_moves_nothing() -> None:
    bad = failure("1", title="a\x1b[2J\nb\u202ec", task="x" * 200)
    ((title, task, *_),) = cells(picture(failures=(bad,)), 1)
    assert title == "a\\u001b[2J b\\u202ec"
    assert (len(task), task[-1]) == (40, "…")
    head, _ = verdict(picture(failures=(replace(bad, last_at=NOW),)), UTC)
    assert "\x1b" not in head.text


@pytest.mark.parametrize(
    ("room", "found"), [(100, (20, 4, 9)), (30, (17, 4, 9)), (22, (9, 4, 9)), (1, (6, 4, 6))]
)
def test_texts_give_way_where_there_is_no_room_and_numbers_do_not(
    room: int, found: tuple[int, ...]
) -> None:
    columns = (Column("Error"), Column("N", is_number=True), Column("Task"))
    rows = Rows(name="", columns=columns, rows=(Row("1", ("e" * 20, "1234", "t" * 9)),), empty="")
    assert widths(rows, room) == found
