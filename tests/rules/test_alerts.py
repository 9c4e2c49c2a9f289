from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.alert import Alert, AlertChange, AlertSilence
from onbeat.rules.alerts import (
    ALERTS_MAX,
    ANNOUNCED_AFTER,
    KEY_OF_OTHERS,
    RAISED,
    RESOLVED,
    RESOLVED_AFTER,
    alert_changes,
    is_silenced,
)
from onbeat.rules.verdict import Concern

NOW = datetime(2026, 11, 23, 3, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def a_concern(key: str = "late:mail", **fields: Any) -> Concern:
    given: dict[str, Any] = {"level": "warn", "weight": 60, "text": "t", "detail": "d", **fields}
    return Concern(key=key, **given)


def a_silence(match: str, **fields: Any) -> AlertSilence:
    given: dict[str, Any] = {"until": NOW + HOUR, "note": "", "made_by": "ada", **fields}
    return AlertSilence(id="1", match=match, made_at=NOW, **given)


class Watch:
    """Alerts over time, as one watcher with a store of its own would have them."""

    def __init__(self) -> None:
        self.alerts: dict[str, Alert] = {}
        self.events: list[str] = []

    def look(
        self, seconds: float, found: Sequence[Concern], *silences: AlertSilence
    ) -> Sequence[AlertChange]:
        now = NOW + seconds * SECOND
        changes = alert_changes(found, tuple(self.alerts.values()), silences, now)
        for change in changes:
            key = change.alert.key
            match change.to:
                case "seen":
                    self.alerts[key] = change.alert
                case "announced":
                    self.alerts[key] = replace(self.alerts[key], is_announced=True)
                case _:
                    del self.alerts[key]
            if change.event is not None:
                self.events.append(change.event.type)
        return changes


def test_an_alert_is_announced_once_it_lasts() -> None:
    watch = Watch()
    watch.look(0, [a_concern()])
    watch.look(ANNOUNCED_AFTER.total_seconds() - 0.001, [a_concern()])
    assert watch.events == []
    changes = watch.look(ANNOUNCED_AFTER.total_seconds(), [a_concern(detail="now 4")])
    assert [change.to for change in changes] == ["seen", "announced"]
    event = changes[1].event
    assert event is not None
    assert (event.subject, event.extensions) == ("late:mail", {"onbeatdepth": 1})
    assert event.data is not None
    assert msgspec.json.decode(event.data) == {
        "key": "late:mail",
        "level": "warn",
        "text": "t",
        "detail": "now 4",
        "since": "2026-11-23T03:12:00Z",
    }
    watch.look(60, [a_concern()])
    assert watch.events == [RAISED]


def test_an_alert_ends_when_it_was_gone_for_a_while() -> None:
    watch = Watch()
    watch.look(0, [a_concern()])
    watch.look(20, [a_concern()])
    watch.look(20 + RESOLVED_AFTER.total_seconds() - 0.001, [])
    assert watch.events == [RAISED]
    watch.look(50, [a_concern()])
    watch.look(50 + RESOLVED_AFTER.total_seconds(), [])
    assert watch.events == [RAISED, RESOLVED]
    assert watch.alerts == {}


def test_what_was_never_told_ends_in_silence() -> None:
    watch = Watch()
    watch.look(0, [a_concern()])
    watch.look(60, [])
    assert (watch.alerts, watch.events) == ({}, [])


def test_an_alert_that_begins_in_a_silence_is_announced_when_it_ends() -> None:
    watch = Watch()
    for at in (0, 30):
        watch.look(at, [a_concern()], a_silence("late:*"))
    assert watch.events == []
    watch.look(40, [a_concern()], a_silence("late:other"))
    assert watch.events == [RAISED]


def test_an_alert_that_was_told_is_resolved_in_a_silence_too() -> None:
    watch = Watch()
    watch.look(0, [a_concern()])
    watch.look(20, [a_concern()])
    watch.look(90, [], a_silence("*"))
    assert watch.events == [RAISED, RESOLVED]


def test_one_key_is_one_alert_with_the_worst_of_it() -> None:
    watch = Watch()
    watch.look(0, [a_concern("failing:a", detail="worst"), a_concern("failing:a", detail="other")])
    assert [one.detail for one in watch.alerts.values()] == ["worst"]


def test_what_is_only_for_those_who_look_is_no_alert() -> None:
    assert Watch().look(0, [a_concern(is_alert=False)]) == []


@pytest.mark.parametrize("more", [0, 1, 50])
def test_many_alerts_are_told_one_by_one_up_to_a_bound(more: int) -> None:
    watch = Watch()
    found = [a_concern(f"late:{number}") for number in range(ALERTS_MAX + more)]
    watch.look(0, found)
    assert len(watch.alerts) == ALERTS_MAX
    others = watch.alerts.get(KEY_OF_OTHERS)
    assert (others is None) == (more == 0)
    if others is not None:
        assert others.text == f"{more + 1} more alerts"


@pytest.mark.parametrize(
    ("match", "expected"),
    [("late:mail", True), ("late:*", True), ("*", True), ("late", False), ("late:mail2", False)],
)
def test_a_silence_is_of_a_key_or_of_its_begin(match: str, *, expected: bool) -> None:
    assert is_silenced("late:mail", [a_silence("none"), a_silence(match)], NOW) is expected


def test_a_silence_holds_from_its_begin_to_its_end() -> None:
    window = a_silence("*", starts_at=NOW + SECOND, until=NOW + 2 * SECOND)
    held = [is_silenced("late:mail", [window], NOW + n * SECOND / 2) for n in range(6)]
    assert held == [False, False, True, True, False, False]


def test_an_alert_that_lasts_into_a_maintenance_window_is_told_after_it() -> None:
    watch, window = Watch(), a_silence("*", starts_at=NOW + 10 * SECOND, until=NOW + 40 * SECOND)
    for at in (0, 20, 39):
        watch.look(at, [a_concern()], window)
    assert watch.events == []
    watch.look(40, [a_concern()], window)
    assert watch.events == [RAISED]
