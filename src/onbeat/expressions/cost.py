"""How much one evaluation may cost, in steps of at most about 20 ns, for facts of a given extent.

The estimate is an upper bound. The extent of a value is the bytes of its JSON and the number of its
elements, at all depths. A step costs at least as much as its operands are large, so a loop over a
value costs at most as much as if one element had all of its extent, and the others nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from onbeat.expressions.syntax import Collection, Constant, FunctionCall, Loop, Member, Name, Node
from onbeat.model.limits import EXPRESSION_LOOPS_MAX, EXPRESSION_PATTERN_MAX

COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
LOGIC: Final = frozenset({"_&&_", "_||_", "!_", "size", "type", "@not_strictly_false"})
SMALL: Final = frozenset({
    "_-_", "_*_", "_/_", "_%_", "-_", "@in", "_in_", "contains", "startsWith", "endsWith",
    "int", "uint", "double", "bool", "timestamp", "duration",
    "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
})  # fmt: skip
"""Functions that read their operands, and whose value is a number, a time or a truth."""

COUNTED: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """The largest size of a value in bytes, and its largest number of elements at all depths."""

    size: float
    elements: float

    def plus(self, other: "Extent", times: float = 1) -> "Extent":
        return Extent(self.size + times * other.size, self.elements + times * other.elements)


SMALL_EXTENT: Final = Extent(30, 0)
LEAST: Final = Extent(1, 1)
NONE: Final = Extent(0, 0)

Cost = Callable[[Extent], float]
"""From the extent of the facts to the steps of an evaluation."""

Scope = Mapping[str, Extent]
"""The extents of the variables of loops."""


class Measure(msgspec.Struct, frozen=True, array_like=True):
    """The extent of a value, and the steps to get it."""

    extent: Extent
    steps: float


def extent_of(text: bytes) -> Extent:
    """The extent of a value with this JSON; an element follows a comma or a bracket."""
    return Extent(len(text), text.count(b",") + text.count(b"[") + text.count(b"{"))


def cost_of(tree: Node) -> Cost:
    """Raises `ValueError` where loops are too deep, or the cost of a pattern cannot be known."""
    check(tree, 0)
    return lambda facts: measure(tree, {}, facts).steps


def check(node: Node, depth: int) -> None:
    if isinstance(node, Loop):
        depth += 1
        if depth > EXPRESSION_LOOPS_MAX:
            raise ValueError(f"it has more than {EXPRESSION_LOOPS_MAX} loops within one another")
    if isinstance(node, FunctionCall) and node.function == "matches":
        pattern_cost(node.arguments[-1])
    for inner in inner_nodes(node):
        check(inner, depth)


def inner_nodes(node: Node) -> Iterator[Node]:
    match node:
        case Member(operand=operand):
            yield operand
        case FunctionCall(arguments=parts) | Collection(parts=parts):
            yield from parts
        case Loop():
            yield from (node.range, node.start, node.condition, node.step, node.result)
        case _:
            return


def measure(node: Node, scope: Scope, facts: Extent) -> Measure:
    match node:
        case Constant(size=size):
            return Measure(Extent(size, 0), 1)
        case Name(name=name):
            return Measure(scope.get(name, facts), 1)
        case Member(operand=operand, is_test=is_test):
            inner = measure(operand, scope, facts)
            return Measure(NONE if is_test else inner.extent, inner.steps + 1)
        case Collection(parts=parts):
            inners = [measure(part, scope, facts) for part in parts]
            whole = total(inners).plus(LEAST, len(parts) + 1)
            return Measure(whole, whole.size + sum(inner.steps for inner in inners))
        case FunctionCall():
            return measure_call(node, scope, facts)
        case Loop():
            return measure_loop(node, scope, facts)


def measure_call(call: FunctionCall, scope: Scope, facts: Extent) -> Measure:
    inners = [measure(argument, scope, facts) for argument in call.arguments]
    steps = 1 + sum(inner.steps for inner in inners)
    whole = total(inners)
    match call.function:
        case "_[_]":
            return Measure(inners[0].extent, steps)
        case "_?_:_":
            return Measure(larger(inners[1].extent, inners[2].extent), steps)
        case "matches":
            read = inners[0].extent.size * pattern_cost(call.arguments[-1])
            return Measure(SMALL_EXTENT, steps + read)
        case name if name in LOGIC:
            return Measure(SMALL_EXTENT, steps)
        case name if name in COMPARISONS:
            return Measure(SMALL_EXTENT, steps + min(inner.extent.size for inner in inners))
        case name if name in SMALL:
            return Measure(SMALL_EXTENT, steps + whole.size)
        case _:  # texts and lists that are put together or converted
            return Measure(whole.plus(SMALL_EXTENT), steps + whole.size)


def measure_loop(loop: Loop, scope: Scope, facts: Extent) -> Measure:
    """A list that grows in a loop grows in place."""
    over = measure(loop.range, scope, facts)
    turns = over.extent.elements + 1
    most, least = (turn(loop, scope, facts, extent) for extent in (over.extent, LEAST))
    steps = over.steps + most.steps + turns * least.steps
    made = SMALL_EXTENT
    if isinstance(loop.start, Collection):
        made = most.extent.plus(least.extent, turns)
        steps += made.size
    result = measure(loop.result, {**scope, loop.result_variable: made}, facts)
    return Measure(result.extent, steps + result.steps)


def turn(loop: Loop, scope: Scope, facts: Extent, element: Extent) -> Measure:
    inner = {**scope, loop.variable: element, loop.result_variable: NONE}
    condition, step = measure(loop.condition, inner, facts), measure(loop.step, inner, facts)
    return Measure(step.extent, condition.steps + step.steps)


def total(measures: Sequence[Measure]) -> Extent:
    whole = NONE
    for each in measures:
        whole = whole.plus(each.extent)
    return whole


def larger(one: Extent, other: Extent) -> Extent:
    return Extent(max(one.size, other.size), max(one.elements, other.elements))


def pattern_cost(pattern: Node) -> float:
    """Steps for each character of the text. A machine of the pattern's size runs over it once."""
    if not isinstance(pattern, Constant) or pattern.text is None:
        raise ValueError("the pattern of matches() must be a text in quotes")
    states = len(pattern.text)
    for counts in COUNTED.finditer(pattern.text):
        states *= max(1, int(counts[2] or counts[1]))
    if states > EXPRESSION_PATTERN_MAX:
        raise ValueError(
            f"the pattern of matches() may have {EXPRESSION_PATTERN_MAX:,} characters, each as"
            " often as it is counted with {…}"
        )
    return states
