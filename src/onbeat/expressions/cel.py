"""Expressions in CEL, by the package cel-expr-python (extra `cel`).

Its evaluator stops a loop after 10,000 iterations, but neither doubled lists and texts nor costly
patterns, so the cost of each evaluation is estimated before it (`onbeat.expressions.cost`).
"""

import re
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from onbeat.expressions.cost import Cost, Extent, cost_of, extent_of
from onbeat.expressions.reads import reads_of
from onbeat.expressions.syntax import read_tree
from onbeat.model.condition import Read
from onbeat.model.errors import Invalid
from onbeat.model.limits import (
    EXPRESSION_CHARS_MAX,
    EXPRESSION_COST_MAX,
    EXPRESSION_FACTS_BYTES_MAX,
)
from onbeat.ports.expressions import Expression, Fault, ValueKind, extra_is_missing

if TYPE_CHECKING:
    from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]

ERROR: Final = "ERROR"  # the type of the value that an evaluation with a fault gives
COMPILED_MAX: Final = 1_000  # about 20 kB each

# Facts that are instants. Others are plain JSON, in which instants are texts.
INSTANTS: Final = frozenset({"now", "occurrence"})

ALLOWED: Final[Mapping[ValueKind, frozenset[str]]] = {
    ValueKind.ANY: frozenset(),
    ValueKind.TRUTH: frozenset({"BOOL", "DYN"}),
    ValueKind.TEXT: frozenset({"STRING", "INT", "UINT", "BOOL", "DYN"}),
}
"""The static types that may give a value of the kind; all for `ANY`."""

PLAIN: Final[tuple[type[object], ...]] = (bool, int, float, str, datetime, timedelta, list, dict)
LARGEST: Final = Extent(EXPRESSION_FACTS_BYTES_MAX, EXPRESSION_FACTS_BYTES_MAX)

PLACE: Final = re.compile(r"<input>:(\d+):(\d+): (.*)")
STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
LONG_FACT: Final = re.compile(r" for '.*", re.DOTALL)


class CelExpressions:
    """Implements `onbeat.ports.expressions.Expressions`. May be used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environments: dict[frozenset[str], cel.Env] = {}
        self._compiled: dict[tuple[str, frozenset[str], ValueKind], CelExpression] = {}

    def compile(
        self, text: str, names: Collection[str], field: str, kind: ValueKind = ValueKind.ANY
    ) -> Expression:
        if len(text) > EXPRESSION_CHARS_MAX:
            raise Invalid(f"{field} must have at most {EXPRESSION_CHARS_MAX} characters", field)
        key = (text, frozenset(names), kind)
        with self._lock:
            known = self._compiled.get(key)
            if known is None:
                known = self._compile(text, key[1], field, kind)
                if len(self._compiled) >= COMPILED_MAX:
                    del self._compiled[next(iter(self._compiled))]
                self._compiled[key] = known
        return known

    def _compile(
        self, text: str, names: frozenset[str], field: str, kind: ValueKind
    ) -> "CelExpression":
        environment = self._environment(names, field)
        try:
            program = environment.compile(text)
            found = program.return_type().name()
            tree = read_tree(program.serialize())
            cost = cost_of(tree)
        except RuntimeError as error:
            raise Invalid(f"{field}: {first_error(str(error))}", field) from None
        except ValueError as error:
            raise Invalid(f"{field}: {error}", field) from None
        if kind is not ValueKind.ANY and found not in ALLOWED[kind]:
            raise Invalid(f"{field} must give {kind}; it gives {found.lower()}", field)
        return CelExpression(program, names, cost, reads_of(tree, text))

    def _environment(self, names: frozenset[str], field: str) -> "cel.Env":
        known = self._environments.get(names)
        if known is not None:
            return known
        try:
            # Large, and few programs need it.
            from cel_expr_python import (  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]
                cel,
            )
        except ImportError:
            raise extra_is_missing(field) from None
        types = {name: cel.Type.TIMESTAMP if name in INSTANTS else cel.Type.DYN for name in names}
        made = self._environments[names] = cel.NewEnv(variables=types)
        return made


class CelExpression:
    """Implements `onbeat.ports.expressions.Expression`."""

    def __init__(
        self,
        program: "cel.Expression",
        names: frozenset[str],
        cost: Cost,
        reads: tuple[Read, ...],
    ) -> None:
        self._program = program
        self.reads = reads
        self._instants = INSTANTS & names
        # Most expressions cost little for any facts.
        self._cost = None if cost(LARGEST) <= EXPRESSION_COST_MAX else cost

    def __call__(self, facts: Mapping[str, object]) -> object | Fault:
        try:
            text = msgspec.json.encode(facts, enc_hook=refuse_fact)
        except (TypeError, ValueError) as error:
            return Fault(f"a fact is not JSON: {error}")
        if len(text) > EXPRESSION_FACTS_BYTES_MAX:
            return Fault(
                f"its facts may have {EXPRESSION_FACTS_BYTES_MAX:,} bytes; they have {len(text):,}"
            )
        if self._cost is not None and self._cost(extent_of(text)) > EXPRESSION_COST_MAX:
            return Fault(f"it costs too much for facts of {len(text):,} bytes; use fewer loops")
        return self._value(text, facts)

    def _value(self, text: bytes, facts: Mapping[str, object]) -> object | Fault:
        data: dict[str, Any] = msgspec.json.decode(text)
        for name in self._instants:
            instant = facts.get(name)
            if isinstance(instant, datetime):
                data[name] = instant.astimezone(UTC)
            else:
                data.pop(name, None)
        try:
            value = self._program.eval(data=data)
        except (RuntimeError, MemoryError) as error:
            return Fault(fault_text(str(error)))
        if value.type().name() == ERROR:
            return Fault(fault_text(str(value.value())))
        return plain_value(value.plain_value())


def refuse_fact(fact: object) -> object:
    raise TypeError(type(fact).__name__)


def plain_value(value: object) -> object:
    if value is None or issubclass(type(value), PLAIN):
        return value
    return Fault(f"its value is of no use here: {type(value).__name__}")


def first_error(error: str) -> str:
    """The first error of the compiler with its place, and what is at that place."""
    first = PLACE.search(error)
    if first is None:
        return STATUS.sub("", STATUS.sub("", error))
    line, column, words = first.groups()
    words = STATUS.sub("", words).replace(" (in container '')", "")
    if int(line) < 1:
        return words
    return f"line {line}, column {column}: {words}"


def fault_text(error: str) -> str:
    """The evaluator's words without its status, and without the facts, which may be secret."""
    return LONG_FACT.sub("", STATUS.sub("", STATUS.sub("", error))) or "out of memory"
