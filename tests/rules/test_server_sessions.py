from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from onbeat.model.session_look import SessionLook
from onbeat.rules.server_sessions import (
    ALONE_PERIOD,
    KEPT_SECONDS,
    LOST_SECONDS,
    PERIOD,
    RETURN_PERIOD,
    RETURN_SECONDS,
    UNSEEN,
    SessionWatch,
    after_look,
    pause_after_look,
)

BOTH = SessionLook(frozenset({"a", "b"}), watchers=1, ended=5, lost=7)
KILLED = SessionLook(frozenset({"a"}), watchers=1, ended=5, lost=9)
LATER = RETURN_SECONDS + 0.001


def watched(
    looks: Sequence[tuple[float, SessionLook]], watch: SessionWatch = UNSEEN
) -> SessionWatch:
    for at, look in looks:
        watch = after_look(watch, look, at)
    return watch


def ended(*looks: tuple[float, SessionLook]) -> set[str]:
    return set(watched(looks).ended)


def test_a_process_that_lost_its_sessions_and_does_not_return_has_ended() -> None:
    assert ended((0, BOTH), (1, KILLED)) == set(), "it may connect anew"
    assert ended((0, BOTH), (1, KILLED), (1 + LATER, KILLED)) == {"b"}


def test_a_process_that_returns_in_time_lives() -> None:
    back = replace(KILLED, names=BOTH.names)
    assert ended((0, BOTH), (1, KILLED), (2.9, back), (1 + LATER, back), (4, back)) == set()


def test_a_process_that_returns_later_lives_again() -> None:
    back = replace(KILLED, names=BOTH.names)
    assert ended((0, BOTH), (1, KILLED), (1 + LATER, KILLED), (4, back)) == set()


def test_a_process_that_was_never_seen_has_not_ended() -> None:
    assert ended((0, replace(KILLED, lost=7)), (1, KILLED), (2, KILLED)) == set()


def test_a_process_that_took_leave_has_not_ended() -> None:
    parted = replace(BOTH, names=KILLED.names)
    assert ended((0, BOTH), (1, parted), (2, parted)) == set()


def test_a_loss_that_is_counted_just_before_the_session_leaves_counts() -> None:
    counted = replace(KILLED, names=BOTH.names)
    at = LOST_SECONDS / 2
    assert ended((0, BOTH), (0.01, counted), (at, KILLED), (at + LATER, KILLED)) == {"b"}
    at = LOST_SECONDS * 2
    assert ended((0, BOTH), (0.01, counted), (at, KILLED), (at + LATER, KILLED)) == set()


@pytest.mark.parametrize("at", [1, 2])
def test_sessions_that_the_server_ended_prove_nothing(at: int) -> None:
    looks = [(0, BOTH), (1, KILLED), (2, KILLED), (3, KILLED)]
    before, after = looks[:at], looks[at:]
    assert ended(*before, *((when, replace(look, ended=6)) for when, look in after)) == set()


def test_an_ended_process_is_forgotten_after_a_while() -> None:
    looks = [(0, BOTH), (1, KILLED), (2, KILLED)]
    assert ended(*looks, (KEPT_SECONDS, KILLED)) == {"b"}
    assert ended(*looks, (2 + KEPT_SECONDS, KILLED)) == set()


def test_many_watchers_look_as_often_as_three_and_all_hurry_when_one_is_missing() -> None:
    def pause(*looks: tuple[float, SessionLook]) -> float:
        return pause_after_look(watched(looks))

    assert pause() == PERIOD
    assert pause((0, replace(BOTH, watchers=3))) == PERIOD
    assert pause((0, replace(BOTH, watchers=30))) == pytest.approx(10 * PERIOD)
    assert pause((0, BOTH), (1, replace(KILLED, names=BOTH.names))) == RETURN_PERIOD
    assert pause((0, BOTH), (1, KILLED)) == RETURN_PERIOD
    assert pause((0, BOTH), (1, KILLED), (1 + LATER, KILLED)) == ALONE_PERIOD
