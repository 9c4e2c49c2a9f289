import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models_elsewhere import handles
from onbeat import Context, Invalid, Onbeat
from onbeat.model.limits import PAYLOAD_BYTES_MAX
from onbeat.targets.codec import Codec


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    zip: int | None = None


@dataclass
class Order:
    id: UUID
    total: Decimal
    addresses: list[Address] = field(default_factory=list)


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float | None = 0.0


class User(pydantic.BaseModel):
    name: str
    born: date


NOW = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
ORDER = Order(UUID(int=7), Decimal("10.50"), [Address("Main", 12), Address("Side")])

VALUES = [
    (int, 7),
    (object, {"any": [1, None]}),
    (dict[str, object], {"order": 7, "lines": [{"sum": 1.5}]}),
    (str, "grün ☃ \x00 \U0001f600"),
    (float, 0.1),
    (bool, True),
    (bytes, b"\x00\xff"),
    (datetime, NOW),
    (date, date(2030, 1, 1)),
    (timedelta, timedelta(minutes=90, microseconds=1)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (int | None, None),
    (int | None, 3),
    (Literal["a", "b"], "b"),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[str, list[int]], {"a": [1]}),
    (dict[int, str], {1: "a"}),
    (Order, ORDER),
    (list[Order], [ORDER]),
    (Point, Point(1.5, None)),
    (User, User(name="Ada", born=date(1815, 12, 10))),
    (list[User], [User(name="Ada", born=date(1815, 12, 10))]),
    (Any, {"a": [1, None, "x"]}),
]


def named(part: Any) -> str:
    """The same in every process, as tests may be spread over several."""
    return getattr(part, "__name__", type(part).__name__)


def codec_for(kind: Any, task: str = "work") -> Codec:
    def work(value: int | Callable[..., Any]) -> None: ...

    work.__annotations__ = {"value": kind}
    return Codec(task, work, Context)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=named)
def test_what_was_sent_arrives_as_it_was(kind: Any, value: Any) -> None:
    codec = codec_for(kind)
    assert codec.decode(*codec.encode((value,), {})) == ([value], {})
    assert codec.decode(*codec.encode((), {"value": value})) == ([], {"value": value})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_arrives_as_it_was(value: dict[str, Any] | list[float | None] | None) -> None:
    codec = codec_for(Any)
    assert codec.decode(*codec.encode((value,), {}))[0] == [value]


REFUSED = [
    (Any, lambda: None, "function"),
    (Any, object(), "object"),
    (Any, io.StringIO(), "StringIO"),
    (Any, sys.stdin, "no JSON form"),
    (Any, [1, {"a": print}], "no JSON form"),
    (Any, float("nan"), "NaN"),
    (Any, [float("inf")], "NaN"),
    (Any, {"a": (1.0, float("-inf"))}, "NaN"),
    (float | None, float("nan"), "NaN"),
    (Point, Point(0.0, float("nan")), "NaN"),
    (list[Point], [Point(0.0, float("inf"))], "NaN"),
    (int, "seven", "Expected `int`"),
    (list[int], [1, "x"], "Expected `int`"),
    (Colour, "blue", "blue"),
    (Any, "half \udce9", "no JSON form"),
]


@pytest.mark.parametrize(("kind", "value", "told"), REFUSED, ids=named)
def test_what_cannot_be_kept_is_refused_when_it_is_sent_by_name(
    kind: Any, value: Any, told: str
) -> None:
    with pytest.raises(Invalid, match="'value'") as raised:
        codec_for(kind).encode((value,), {})
    assert raised.value.field == "value"
    assert told in str(raised.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(Invalid) as raised:
        codec_for(Any).encode((ring,), {})
    assert raised.value.field == "value"


def test_an_open_file_is_refused_when_it_is_sent(tmp_path: Path) -> None:
    beat = Onbeat("memory://")

    @beat.task("read")
    def read(file: Any) -> None: ...

    with (tmp_path / "x").open("w") as file, pytest.raises(Invalid, match="'file' of task 'read'"):
        read.send(file)


def test_arguments_that_are_too_large_are_refused_with_what_to_do() -> None:
    codec = codec_for(str)
    codec.encode(("x" * (PAYLOAD_BYTES_MAX - 10),), {})
    with pytest.raises(Invalid, match="store the data elsewhere") as raised:
        codec.encode(("x" * PAYLOAD_BYTES_MAX,), {})
    assert raised.value.field == "args"


# Signatures.


def signed(function: Callable[..., Any]) -> Codec:
    return Codec("work", function, Context)


def both(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **more: int) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {"c": 3}),
        ((1, 2, 3, 4), {"c": 3, "e": 5}),
        ((1,), {"b": 2, "c": 3, "d": 4}),
    ],
)
def test_every_kind_of_parameter_can_be_sent(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    codec = signed(both)
    assert codec.decode(*codec.encode(args, kwargs)) == (list(args), kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {"c": 3}), ((1,), {}), ((1,), {"a": 1, "c": 3, "b": "x"})]
)
def test_arguments_that_do_not_fit_are_refused_as_a_call_would_be(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, Invalid)):
        signed(both).encode(args, kwargs)


def test_the_rest_of_the_arguments_is_checked_by_their_annotation() -> None:
    with pytest.raises(Invalid):
        signed(both).encode((1, 2, "x"), {"c": 3})
    with pytest.raises(Invalid):
        signed(both).encode((1,), {"c": 3, "e": "x"})


def test_the_context_is_not_an_argument() -> None:
    def work(context: Context, n: int) -> None: ...

    codec = signed(work)
    assert codec.context == "context"
    assert codec.decode(*codec.encode((7,), {})) == ([7], {})
    with pytest.raises(TypeError):
        codec.encode((7, 8), {})


def test_an_annotation_that_cannot_be_resolved_hides_no_other() -> None:
    codec = signed(handles)
    assert codec.context == "context"
    assert codec.decode(*codec.encode(({"any": "thing"}, 7), {})) == ([{"any": "thing"}, 7], {})
    with pytest.raises(Invalid, match="'n'"):
        codec.encode(({}, "x"), {})


def before(context: Context, n: int, m: int = 1) -> None: ...


def between(n: int, context: Context, m: int = 1) -> None: ...


def behind(n: int, m: int = 1, *, context: Context) -> None: ...


def optional(n: int, m: int = 1, context: Context | None = None) -> None: ...


@pytest.mark.parametrize("function", [before, between, behind, optional])
@pytest.mark.parametrize(
    ("args", "kwargs"), [((7,), {}), ((7, 8), {}), ((7,), {"m": 8}), ((), {"n": 7})]
)
def test_the_context_is_given_wherever_it_stands(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    codec = signed(function)
    decoded = codec.decode(*codec.encode(args, kwargs))
    whole_args, whole_kwargs = codec.with_context(*decoded, "the context")
    bound = codec.signature.bind(*whole_args, **whole_kwargs).arguments
    assert (bound["context"], bound["n"]) == ("the context", 7)


async def test_a_handler_gets_its_context_before_its_arguments() -> None:
    beat = Onbeat("memory://")

    @beat.task
    async def first(context: Context, n: int) -> int:
        return n * context.attempt

    elsewhere = beat.task(handles)
    async with beat:
        assert await (await first.asend(7)).aresult(60) == 7
        assert await (await elsewhere.asend({}, 7)).aresult(60) == 8
