"""python-liquid, with less than it can do: only what a notice needs, and nothing without a bound.

Without files, ranges and costly filters a template does no more work than its text and its facts
are long, times the turns of its loops.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, Final, cast

from liquid import Environment, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions.primitive import RangeLiteral
from liquid.exceptions import (
    LiquidError,
    LocalNamespaceLimitError,
    LoopIterationLimitError,
    OutputStreamLimitError,
)
from liquid.expression import Expression
from liquid.span import Span
from liquid.static_analysis import Variable
from liquid.template import BoundTemplate
from liquid.undefined import FalsyStrictUndefined

from onbeat.model.limits import (
    RENDERED_BYTES_MAX,
    TEMPLATE_DIGITS_MAX,
    TEMPLATE_LOOPS_MAX,
    TEMPLATE_WORK_MAX,
)
from onbeat.targets.notify.broken import Broken
from onbeat.targets.notify.marks import check_marks

FILE_TAGS: Final = ("include", "render")
FILTERS: Final = frozenset({
    "abs", "append", "at_least", "at_most", "capitalize", "ceil", "compact", "concat", "date",
    "default", "divided_by", "downcase", "escape", "escape_once", "first", "floor", "join", "last",
    "lstrip", "map", "minus", "modulo", "newline_to_br", "plus", "prepend", "remove",
    "remove_first", "replace", "replace_first", "reverse", "round", "rstrip", "safe", "size",
    "slice", "sort", "sort_natural", "split", "strip", "strip_newlines", "sum", "times",
    "truncate", "truncatewords", "upcase", "url_encode", "where",
})  # fmt: skip
LIMITS: Final[Mapping[type[LiquidError], str]] = {
    OutputStreamLimitError: f"it makes more than {RENDERED_BYTES_MAX} bytes",
    LocalNamespaceLimitError: f"its variables take more than {RENDERED_BYTES_MAX} bytes",
    LoopIterationLimitError: "its loops take too many turns",
}
TOO_DEEP: Final = "it is nested too deep"
DATE_CHARS_MAX: Final = 64  # of a text that is read as a date, and of the form to show it in


class Compiled:
    """One text, compiled. Raises `Broken` for a text that does not parse."""

    def __init__(self, text: str, *, is_html: bool = False) -> None:
        check_marks(text)
        try:
            self.template = cast("BoundedTemplate", environment(is_html).from_string(text))
            self.template.chars = len(text)
            refuse_ranges(self.template)
            analysis = self.template.analyze(include_partials=False)
        except LiquidError as error:
            if isinstance(error.__cause__, RecursionError):
                raise Broken(TOO_DEEP) from None
            # A block without an end is found at the end.
            raise broken(error, len(text)) from None
        except RecursionError:
            raise Broken(TOO_DEEP) from None
        refuse_filters(analysis.filters)
        self.reads = {name: places[0].span.index for name, places in analysis.globals.items()}
        """The names that it reads and does not make, each with its first place."""
        self.members = list(members_of(analysis.globals))
        """The members of these names that its text tells: name, member, place."""

    def render(self, facts: Mapping[str, object]) -> str:
        """Raises `Broken`."""
        token = WORK.set(Work())
        try:
            return self.template.render(**facts)
        except LiquidError as error:
            raise broken(error) from None
        except RecursionError:
            raise Broken(TOO_DEEP) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # Filters do not catch all that odd arguments lead to.
            raise Broken(f"{type(error).__name__}: {error}"[:200]) from None
        finally:
            WORK.reset(token)


class Missing(FalsyStrictUndefined):
    """A name without a value: false in a condition, replaced by `default`, else an error."""

    force_liquid_default = True


class Work:
    """What one rendering may still do, in characters."""

    def __init__(self) -> None:
        self.left = TEMPLATE_WORK_MAX

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Broken("its filters handle more text than a template may")


WORK: Final = ContextVar[Work]("WORK")


class BoundedContext(RenderContext):
    """The longer the text, the fewer turns its loops may take: the product is the work."""

    template: "BoundedTemplate"

    def raise_for_loop_limit(self, length: int = 1) -> None:
        turns = length
        for loop in self.loops:
            turns *= loop.length
        if turns > TEMPLATE_LOOPS_MAX or turns * self.template.chars > TEMPLATE_WORK_MAX:
            raise LoopIterationLimitError("loop iteration limit reached", token=None)


class BoundedTemplate(BoundTemplate):
    context_class = BoundedContext
    chars = 0


class BoundedEnvironment(Environment):
    local_namespace_limit = RENDERED_BYTES_MAX
    output_stream_limit = RENDERED_BYTES_MAX
    template_class = BoundedTemplate

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        super().setup_tags_and_filters(extra=extra)
        for name in FILE_TAGS:
            del self.tags[name]
        self.filters = {
            name: SPECIAL.get(name, bounded)(run)
            for name, run in self.filters.items()
            if name in FILTERS
        }


@cache
def environment(is_html: bool) -> BoundedEnvironment:  # noqa: FBT001  the key of the cache
    return BoundedEnvironment(undefined=Missing, autoescape=is_html)


def members_of(reads: Mapping[str, Sequence[Variable]]) -> Iterator[tuple[str, str, int]]:
    for name, variables in reads.items():
        for variable in variables:
            member = variable.segments[1] if len(variable.segments) > 1 else None
            if isinstance(member, str):
                yield name, member, variable.span.index


def refuse_ranges(template: BoundTemplate) -> None:
    """A range makes work out of two numbers, before any limit is asked."""
    context = RenderContext(template)
    nodes: list[Node] = list(template.nodes)
    while nodes:
        node = nodes.pop()
        nodes += node.children(context, include_partials=False)
        expressions: list[Expression] = list(node.expressions())
        while expressions:
            expression = expressions.pop()
            if isinstance(expression, RangeLiteral):
                raise Broken(
                    "ranges such as (1..5) are not available", expression.token.start_index
                )
            expressions += expression.children()


def refuse_filters(used: Mapping[str, Sequence[Span]]) -> None:
    for name, places in used.items():
        if name not in FILTERS:
            raise Broken(f"there is no filter {name!r}", places[0].index)


def bounded(run: Callable[..., Any]) -> Callable[..., Any]:
    """The filter; what goes in and comes out is counted as work."""

    @wraps(run)
    def filter(*args: Any, **kwargs: Any) -> Any:
        work = WORK.get()
        work.spend(sum(map(size_of, args)))
        result = run(*args, **kwargs)
        work.spend(size_of(result))
        return result

    return filter


def bounded_replace(run: Callable[..., Any]) -> Callable[..., Any]:
    """Its result may be as long as the product of its arguments, so it is counted before."""
    replace = bounded(run)

    @wraps(run)
    def filter(value: Any, old: Any, new: Any = "") -> Any:
        WORK.get().spend((len(str(value)) + 1) * len(str(new)) // max(len(str(old)), 1))
        return replace(value, old, new)

    return filter


def bounded_join(run: Callable[..., Any]) -> Callable[..., Any]:
    join = bounded(run)

    @wraps(run)
    def filter(value: Any, separator: Any = " ", **kwargs: Any) -> Any:
        WORK.get().spend(size_of(value) * len(str(separator)))
        return join(value, separator, **kwargs)

    return filter


def bounded_date(run: Callable[..., Any]) -> Callable[..., Any]:
    """Parsing a date takes more than linear time, and a form may ask for endless padding."""
    date = bounded(run)

    @wraps(run)
    def filter(value: Any, form: Any, **kwargs: Any) -> Any:
        if len(str(value)) > DATE_CHARS_MAX or len(str(form)) > DATE_CHARS_MAX:
            raise Broken(f"a date and its form have at most {DATE_CHARS_MAX} characters")
        if any(char.isdigit() for char in str(form)):
            raise Broken("the form of a date has no digits")
        return date(value, form, **kwargs)

    return filter


SPECIAL: Final = {
    "replace": bounded_replace,
    "join": bounded_join,
    "date": bounded_date,
}


def size_of(value: object) -> int:
    """About how many characters the value has as a text."""
    total = 0
    values = [value]
    while values:
        one = values.pop()
        total += 1
        if isinstance(one, Missing):
            continue
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, int):
            total += digits_of(one)
        elif isinstance(one, Mapping):
            values += one.values()
        elif isinstance(one, list | tuple):
            values += one
    return total


def digits_of(number: int) -> int:
    digits = number.bit_length() // 3
    if digits > TEMPLATE_DIGITS_MAX:
        raise Broken(f"a number has more than {TEMPLATE_DIGITS_MAX} digits")
    return digits


def broken(error: LiquidError, end: int | None = None) -> Broken:
    """The error in our words: the library's own text has several lines. `end` is its last place."""
    known = next((words for kind, words in LIMITS.items() if isinstance(error, kind)), None)
    index = error.token.start_index if error.token is not None else None
    message = known or " ".join(str(error.message).split())[:300]
    return Broken(message, index if index is not None and index >= 0 else end)
