"""Expressions in CEL (Common Expression Language) over named facts."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from onbeat.model.condition import Read
from onbeat.model.errors import Invalid


class Fault(msgspec.Struct, frozen=True):
    """Why an expression has no value, in words."""

    text: str


class ValueKind(StrEnum):
    """What an expression must give, as far as its text tells; in words, for errors."""

    ANY = "a value"
    TRUTH = "true or false"
    TEXT = "a text, a number, or true or false"


class Expression(Protocol):
    """A compiled expression. Its evaluation is bounded in steps, and pure."""

    @property
    def reads(self) -> Sequence[Read]:
        """The names that it reads, and their members as far as its text tells."""
        ...

    def __call__(self, facts: Mapping[str, object]) -> object | Fault:
        """The value for these facts.

        They are JSON values, by name; `now` and `occurrence` are datetimes, while datetimes inside
        of other facts become texts, which `timestamp(event.time)` reads. A name without a fact,
        or a missing key, is a fault where the value depends on it.
        """
        ...


class Expressions(Protocol):
    def compile(
        self, text: str, names: Collection[str], field: str, kind: ValueKind = ValueKind.ANY
    ) -> Expression:
        """Raises `Invalid` with the field and the place in the text.

        Refused are texts that do not parse, that use a name which is not among `names`, that cannot
        give a value of this kind, or that are longer than `EXPRESSION_CHARS_MAX`; and all of them
        without the extra `cel`. Compiled texts are kept, a bounded number of them.
        """
        ...


def extra_is_missing(field: str) -> Invalid:
    return Invalid(f"{field} needs cel-expr-python; run: pip install 'onbeat[cel]'", field)


class NoExpressions:
    """Implements `Expressions` where there are none: refuses every text."""

    def compile(
        self, text: str, names: Collection[str], field: str, kind: ValueKind = ValueKind.ANY
    ) -> Expression:
        raise extra_is_missing(field)


NO_EXPRESSIONS: Final[Expressions] = NoExpressions()
