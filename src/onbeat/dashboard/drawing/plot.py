"""Plots of numbers over time, as path data: places across in a fixed width, heights in pixels.

A template stretches the width to that of the page. A step is as wide as its time, so that a single
point between two gaps is seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from onbeat.dashboard.drawing.axis import Tick, TimeAxis
from onbeat.rules.history import axis_maximum

WIDTH: Final = 1_440
"""The width of the paths; the window's is another, and stretches them."""
HEIGHT: Final = 120
"""Pixels between the axis and the greatest value."""

Values = Sequence[float | None]
Write = Callable[[float], str]


@dataclass(frozen=True)
class PlotLine:
    """One row of numbers, None where nothing was measured; `colour` is that of a state."""

    name: str
    values: Values
    colour: str
    shape: Literal["area", "line"] = "line"


@dataclass(frozen=True)
class Stroke:
    """A line of the plot as path data."""

    name: str
    colour: str
    shape: str
    path: str


@dataclass(frozen=True)
class GridLine:
    y: float
    text: str


@dataclass(frozen=True)
class PlotMark:
    """Something that happened at `x` percent of the width."""

    x: float
    words: str


@dataclass(frozen=True)
class Plot:
    """What a template needs. `texts` has one text for each step, for who points at it."""

    name: str
    strokes: Sequence[Stroke]
    gaps: str
    grid: Sequence[GridLine]
    ticks: Sequence[Tick]
    texts: Sequence[str]
    sentence: str
    events: Sequence[PlotMark] = ()


def plot(
    name: str,
    axis: TimeAxis,
    lines: Sequence[PlotLine],
    times: Sequence[str],
    measured: Values,
    *,
    write: Write,
    height: int = HEIGHT,
    events: Sequence[PlotMark] = (),
    maximum: Callable[[float], float] = axis_maximum,
) -> Plot:
    """A plot of lines with the same steps, whose times are given; `write` writes a value.

    `maximum` is the end of the axis for the largest value.

    Where `measured` is None is a gap of the whole plot, which is drawn as such.
    """
    top = maximum(max((value for line in lines for value in known(line.values)), default=0))
    return Plot(
        name=name,
        strokes=[
            Stroke(line.name, line.colour, line.shape, path(line, top, height)) for line in lines
        ],
        gaps=gaps(measured, height),
        grid=[GridLine(0, write(top)), GridLine(height / 2, write(top / 2))],
        ticks=axis.ticks(),
        texts=texts_of(lines, times, write, events),
        sentence=" ".join([sentence(name, lines, times, write), *(one.words for one in events)]),
        events=events,
    )


def strip(values: Values, height: int) -> str:
    """A small area without an axis, as path data."""
    top = max([*known(values), 1.0])
    return path(PlotLine("", values, "", "area"), top, height)


def known(values: Values) -> list[float]:
    return [value for value in values if value is not None]


def path(line: PlotLine, top: float, height: int) -> str:
    """Steps from left to right; each gap begins a new part."""
    size = WIDTH / len(line.values)
    return "".join(
        part(run, size, top, height, is_closed=line.shape == "area") for run in runs(line.values)
    )


def gaps(values: Values, height: int) -> str:
    """The places where nothing was measured, as boxes of the whole height."""
    size = WIDTH / len(values)
    absent = [1.0 if value is None else None for value in values]
    boxes = ((run[0][0], run[-1][0] + 1) for run in runs(absent))
    return "".join(
        f"M{digits(first * size)} 0H{digits(last * size)}V{height}H{digits(first * size)}Z"
        for first, last in boxes
    )


def runs(values: Values) -> Iterator[list[tuple[int, float]]]:
    """The parts without gaps, as places and values."""
    for is_gap, found in groupby(enumerate(values), key=lambda item: item[1] is None):
        if not is_gap:
            yield [(place, value) for place, value in found if value is not None]


def part(
    run: Sequence[tuple[int, float]], size: float, top: float, height: int, *, is_closed: bool
) -> str:
    first, last = run[0][0], run[-1][0] + 1
    heights = [digits(height - height * value / top) for _, value in run]
    start = f"{digits(first * size)} {height if is_closed else heights[0]}"
    steps = [f"M{start}"]
    before = None if is_closed else heights[0]
    for (place, _), y in zip(run, heights, strict=True):
        if y != before:
            steps.append(f"H{digits(place * size)}V{y}")
        before = y
    steps.append(f"H{digits(last * size)}")
    return "".join([*steps, f"V{height}Z"] if is_closed else steps)


def digits(number: float) -> str:
    """At most one digit after the point: a tenth of a pixel is not seen."""
    return f"{number:.1f}".removesuffix(".0")


def texts_of(
    lines: Sequence[PlotLine], times: Sequence[str], write: Write, events: Sequence[PlotMark]
) -> list[str]:
    """What each step says, with what happened in it."""
    texts = [text_at(place, lines, times, write) for place in range(len(times))]
    for event in events:
        place = min(int(event.x / 100 * len(times)), len(times) - 1)
        texts[place] += f". {event.words}"
    return texts


def text_at(place: int, lines: Sequence[PlotLine], times: Sequence[str], write: Write) -> str:
    values = [(line.name, line.values[place]) for line in lines]
    parts = [f"{write(value)} {name}" for name, value in values if value is not None]
    return f"{times[place]}: {', '.join(parts) if parts else 'nothing was measured'}"


def sentence(name: str, lines: Sequence[PlotLine], times: Sequence[str], write: Write) -> str:
    """The plot for who does not see it."""
    parts = [words_of(line, times, write) for line in lines if known(line.values)]
    return f"{name}. {' '.join(parts) if parts else 'Nothing was measured.'}"


def words_of(line: PlotLine, times: Sequence[str], write: Write) -> str:
    values = known(line.values)
    most = max(values)
    gaps = len(line.values) - len(values)
    missing = f" In {gaps} of {len(line.values)} steps there is no value." if gaps else ""
    return (
        f"{line.name.capitalize()}: {write(values[-1])} at last, at most {write(most)}"
        f" at {times[line.values.index(most)]}.{missing}"
    )
