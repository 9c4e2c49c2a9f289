"""Values that stand in Python source, read without running it.

Literals, sums and products of numbers, names of such constants, and calls of `timedelta`,
`datetime`, `date` and of time zones are understood. Everything else is refused.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from onbeat.cli.imports.records import UnreadableSource

DEPTH_MAX: Final = 40
NUMBER_MAX: Final = 10**12
NAMED_CHARS_MAX: Final = 200
"""Of a text that has a name: a name may stand often."""

OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
}
DATES: Final[Mapping[str, Callable[..., Any]]] = {
    "timedelta": timedelta,
    "datetime": datetime,
    "date": date,
}
ZONES: Final = frozenset({"timezone", "ZoneInfo", "gettz"})
UTC_NAMES: Final = frozenset({"utc", "UTC"})


class NotLiteral(ValueError):
    """A part of the source that only running it could tell."""

    def __init__(self, node: ast.AST) -> None:
        self.line: int = getattr(node, "lineno", 1)
        try:
            text = ast.unparse(node)
        except RecursionError:
            text = "a long expression"
        super().__init__(text if len(text) <= 60 else f"{text[:57]}...")


class ZoneName(str):
    """The name of a zone that stands where a zone object does."""

    __slots__ = ()


def parsed(text: str) -> ast.Module:
    """Raises `UnreadableSource`."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UnreadableSource(f"not Python: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError):
        raise UnreadableSource("not Python: it is nested too deeply, or has a zero byte") from None


def walk(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes in the order of their lines."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.Call)]
    return iter(sorted(nodes, key=lambda node: (node.lineno, node.col_offset)))


def constants(tree: ast.Module) -> dict[str, Any]:
    """Numbers and short texts that have a name at the top of the module, given once."""
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                try:
                    value = Literals(found).value(node.value)
                except NotLiteral:
                    continue
                if is_short(value):
                    found[target.id] = value
    return found


def is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= NAMED_CHARS_MAX
    return value is None or isinstance(value, int | float | timedelta | datetime)


class Literals:
    """Reads values; `names` are constants of the module."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def value(self, node: ast.AST, depth: int = 0) -> Any:
        """Raises `NotLiteral`."""
        if depth > DEPTH_MAX:
            raise NotLiteral(node)
        match node:
            case ast.Constant(value=str() | int() | float() | bool() | None as value):
                return value
            case ast.List() | ast.Tuple() | ast.Set():
                return [self.value(one, depth + 1) for one in node.elts]
            case ast.Dict():
                return self.mapping(node, depth)
            case ast.Name() | ast.Attribute():
                return self.named(node)
            case ast.UnaryOp() | ast.BinOp():
                return self.arithmetic(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case _:
                raise NotLiteral(node)

    def named(self, node: ast.Name | ast.Attribute) -> Any:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node, ast.Name) and name in self.names:
            return self.names[name]
        if name in UTC_NAMES:
            return ZoneName("UTC")
        raise NotLiteral(node)

    def arithmetic(self, node: ast.UnaryOp | ast.BinOp, depth: int) -> Any:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = (self.value(one, depth + 1) for one in (node.left, node.right))
            return self.number(node, left, right, OPERATORS[type(node.op)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.number(node, 0, self.value(node.operand, depth + 1), operator.sub)
        raise NotLiteral(node)

    def number(self, node: ast.AST, left: Any, right: Any, apply: Callable[[Any, Any], Any]) -> Any:
        if not is_number(left) or not is_number(right):
            raise NotLiteral(node)
        try:
            result = apply(left, right)
        except ArithmeticError:
            raise NotLiteral(node) from None
        if abs(result) > NUMBER_MAX:
            raise NotLiteral(node)
        return result

    def mapping(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, one in zip(node.keys, node.values, strict=True):
            name = None if key is None else self.value(key, depth + 1)
            if not isinstance(name, str):
                raise NotLiteral(node)
            found[name] = self.value(one, depth + 1)
        return found

    def call(self, node: ast.Call, depth: int) -> Any:
        name = called(node)
        if name == "dict" and not node.args:
            return self.keywords(node, depth)
        args = [self.value(one, depth + 1) for one in node.args]
        if name in ZONES and len(args) == 1 and isinstance(args[0], str):
            return ZoneName(args[0])
        if name not in DATES:
            raise NotLiteral(node)
        keywords = self.keywords(node, depth)
        zone = keywords.pop("tzinfo", None)
        if zone is not None and zone != "UTC":
            raise NotLiteral(node)
        is_utc = any(one.arg == "tzinfo" for one in node.keywords)
        try:
            made = DATES[name](*args, **keywords)
        except (TypeError, ValueError, OverflowError):
            raise NotLiteral(node) from None
        if not is_utc:
            return made
        if not isinstance(made, datetime):
            raise NotLiteral(node)
        return made.replace(tzinfo=UTC)

    def keywords(self, node: ast.Call, depth: int = 0) -> dict[str, Any]:
        """The named arguments. Raises `NotLiteral`, also for `**`."""
        if any(one.arg is None for one in node.keywords):
            raise NotLiteral(node)
        return {str(one.arg): self.value(one.value, depth + 1) for one in node.keywords}


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def called(node: ast.AST) -> str:
    """The last name of what is called: `crontab` of `schedules.crontab(…)`."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
