"""`onbeat alert` against a store on disk."""

from typing import Any

from interfaces.test_cli_requests import asked, onbeat

__all__ = ["asked", "onbeat"]  # fixtures


def test_silences_are_made_shown_and_ended(onbeat: Any, asked: Any) -> None:
    assert "nothing is wrong" in onbeat("alert", "list").output
    made = asked("alert", "silence", "late:*", "--for", "2h", "--note", "migration")
    shown = onbeat("alert", "list").output
    assert f"silence {made['id']}: late:* until" in shown
    assert "(migration)" in shown
    refused = onbeat("alert", "silence", "*", "--until", "2999-01-01T00:00:00Z", code=1)
    assert "until is not within the next 3660 days" in refused.stderr
    assert "silence ended" in onbeat("alert", "unsilence", made["id"]).output
    assert asked("alert", "list") == {"alerts": [], "silences": []}
    assert "no alert ended" in onbeat("alert", "list", "--ended").output


def test_a_maintenance_window_has_its_begin(onbeat: Any, asked: Any) -> None:
    window = ("--from", "2036-01-01T02:00:00Z", "--for", "4h")
    made = asked("alert", "silence", "*", *window)
    assert (made["starts_at"], made["until"]) == ("2036-01-01T02:00:00Z", "2036-01-01T06:00:00Z")
    assert ": * from " in onbeat("alert", "list").output


def test_a_silence_needs_one_end(onbeat: Any) -> None:
    for more in ((), ("--for", "1h", "--until", "2026-12-01T00:00:00Z")):
        assert "give --for or --until" in onbeat("alert", "silence", "*", *more, code=2).output
