"""The last outcomes of a schedule as a strip: form and height tell what colour tells."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from onbeat.dashboard.drawing.svg import element
from onbeat.model.occurrence import OccurrenceOutcome as Outcome

STEP: Final = 6
WIDTH: Final = 4
HEIGHT: Final = 18
SHAPES: Final = {
    Outcome.RAN: ("succeeded", 6, 12),
    Outcome.FAILED: ("failed", 0, 18),
    Outcome.CANCELLED: ("cancelled", 8, 9),
    Outcome.RUNNING: ("running", 6, 12),
    Outcome.PLANNED: ("waiting", 8, 9),
    Outcome.SKIPPED: ("skipped", 4, 13),
    Outcome.MISFIRED: ("skipped", 4, 13),
}
"""The look, the upper edge and the height."""
WORDS: Final = {Outcome.RAN: "ran", Outcome.PLANNED: "wait"}


def strip(outcomes: Sequence[Outcome]) -> Markup | str:
    """The newest is on the right; nothing where there are none."""
    if not outcomes:
        return ""
    bars = [bar(place, outcome) for place, outcome in enumerate(outcomes)]
    return element(
        "svg",
        *bars,
        class_="outcomes",
        width=STEP * len(outcomes),
        height=HEIGHT,
        role="img",
        aria_label=in_words(outcomes),
    )


def bar(place: int, outcome: Outcome) -> Markup:
    kind, top, height = SHAPES[outcome]
    return element("rect", class_=kind, x=STEP * place + 1, y=top, width=WIDTH, height=height)


def in_words(outcomes: Sequence[Outcome]) -> str:
    """`Of the last 20: 18 ran, 2 failed; the newest failed`."""
    counts = Counter(outcomes)
    parts = [f"{counts[one]} {WORDS.get(one, one.value)}" for one in SHAPES if counts[one]]
    newest = WORDS.get(outcomes[-1], outcomes[-1].value)
    return f"Of the last {len(outcomes)}: {', '.join(parts)}; the newest: {newest}"
