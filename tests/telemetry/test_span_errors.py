"""What of a stored error a span may have."""

import pytest

from onbeat.telemetry.span_errors import FRAMES_MAX, error_of

TRACEBACK = """File "/srv/app.py", line 7, in pay
    charge("canary-literal")
    ~~~~~~^^^^^^^^^^^^^^^^^^
  File "/srv/shop.py", line 3, in charge
    raise shop.Refused(card)
shop.Refused: canary-card: was refused
  File "canary", line 1, in message
and a note"""


def test_a_traceback_gives_its_kind_and_its_places() -> None:
    kind, frames = error_of(TRACEBACK)
    assert kind == "shop.Refused"
    assert frames.splitlines() == [
        '  File "/srv/app.py", line 7, in pay',
        '  File "/srv/shop.py", line 3, in charge',
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "POST http://h/secret answered 500 Internal Server Error",
        "timed out after 5 s",
        "ValueError: canary",
        'File "canary',
    ],
)
def test_a_sentence_gives_nothing(text: str) -> None:
    assert error_of(text) == ("failed", "")


@pytest.mark.parametrize("last", ["", "canary without a colon but words", "4: canary", "\u00e9: x"])
def test_a_traceback_with_no_name_at_its_end_has_failed(last: str) -> None:
    kind, frames = error_of(f'File "/a.py", line 1, in f\n    f()\n{last}')
    assert (kind, frames) == ("failed", '  File "/a.py", line 1, in f')


def test_an_error_without_a_message_has_its_kind() -> None:
    assert error_of('File "/a.py", line 1, in f\nKeyError')[0] == "KeyError"


def test_of_a_deep_traceback_the_last_places_are_kept() -> None:
    lines = [f'  File "/a.py", line {n}, in f' for n in range(1, FRAMES_MAX + 2)]
    kept = error_of("\n".join([*lines, "RecursionError: x"]))[1].splitlines()
    assert (len(kept), kept[-1]) == (FRAMES_MAX, lines[-1])
