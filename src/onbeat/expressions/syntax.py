"""The syntax tree of a compiled expression.

A compiled expression can only be serialized, to a message of Protocol Buffers: `CheckedExpr` of
`cel/expr/checked.proto`, inside an `Any`. The few fields of it that matter are read here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

FIXED64: Final = 1


class Constant(msgspec.Struct, frozen=True):
    """`text` is a literal text; None for other literals. `size` is its length."""

    text: str | None
    size: int


class Name(msgspec.Struct, frozen=True):
    """`at` is where it stands in the text, in characters."""

    name: str
    at: int


class Member(msgspec.Struct, frozen=True):
    """A field of `operand`, or whether it has one."""

    operand: "Node"
    field: str
    is_test: bool


class FunctionCall(msgspec.Struct, frozen=True):
    """A function or an operator; a method has its object as the first argument."""

    function: str
    arguments: "tuple[Node, ...]"


class Collection(msgspec.Struct, frozen=True):
    """A list, map or message with these parts."""

    parts: "tuple[Node, ...]"


class Loop(msgspec.Struct, frozen=True):
    """What the macros `all`, `exists`, `filter`, `map` … become."""

    variable: str
    range: "Node"
    result_variable: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Constant | Name | Member | FunctionCall | Collection | Loop

Fields = dict[int, list[int | bytes]]

NODES: Final = (3, 4, 5, 6, 7, 8, 9)
"""The fields of `Expr`, one for each kind of node."""


Places = Mapping[int, int]
"""From the id of a node to its place in the text."""


def read_tree(serialized: bytes) -> Node:
    checked = fields_of(part(fields_of(serialized), 2))
    return read_node(part(checked, 4), read_places(fields_of(part(checked, 5))))


def read_places(source: Fields) -> Places:
    entries = [fields_of(entry) for entry in messages(source, 4)]
    return {number_of(entry, 1): number_of(entry, 2) for entry in entries}


def read_node(message: bytes, places: Places) -> Node:
    fields = fields_of(message)
    kind = next((number for number in NODES if number in fields), None)
    if kind is None:
        raise ValueError("it has a part of a kind that is not known here")
    body = fields_of(part(fields, kind))
    match kind:
        case 3:
            return read_constant(body)
        case 4:
            return Name(text_of(body, 1), places.get(number_of(fields, 2), 0))
        case 5:
            operand = read_node(part(body, 1), places)
            return Member(operand, text_of(body, 2), is_test=3 in body)
        case 6:
            arguments = (*nodes(body, 1, places), *nodes(body, 3, places))
            return FunctionCall(text_of(body, 2), arguments)
        case 7:
            return Collection(tuple(nodes(body, 1, places)))
        case 8:
            entries = [fields_of(entry) for entry in messages(body, 2)]
            return Collection(
                tuple(
                    node
                    for entry in entries
                    for key in (3, 4)
                    for node in nodes(entry, key, places)
                )
            )
        case _:
            return read_loop(body, places)


def read_constant(body: Fields) -> Constant:
    for number in (6, 7):
        if number in body:
            content = part(body, number)
            return Constant(content.decode() if number == 6 else None, len(content) + 1)
    return Constant(None, 1)


def read_loop(body: Fields, places: Places) -> Loop:
    return Loop(
        variable=text_of(body, 1),
        range=read_node(part(body, 2), places),
        result_variable=text_of(body, 3),
        start=read_node(part(body, 4), places),
        condition=read_node(part(body, 5), places),
        step=read_node(part(body, 6), places),
        result=read_node(part(body, 7), places),
    )


def nodes(fields: Fields, number: int, places: Places) -> Iterator[Node]:
    return (read_node(message, places) for message in messages(fields, number))


def messages(fields: Fields, number: int) -> Iterator[bytes]:
    return (content for content in fields.get(number, ()) if isinstance(content, bytes))


def part(fields: Fields, number: int) -> bytes:
    return next(messages(fields, number))


def number_of(fields: Fields, number: int) -> int:
    return next((value for value in fields.get(number, ()) if isinstance(value, int)), 0)


def text_of(fields: Fields, number: int) -> str:
    return part(fields, number).decode()


def fields_of(message: bytes) -> Fields:
    """The fields of a message by number, in order."""
    found: Fields = {}
    place = 0
    while place < len(message):
        key, place = read_varint(message, place)
        match key & 7:
            case 0:
                value, place = read_varint(message, place)
                found.setdefault(key >> 3, []).append(value)
            case 2:
                length, place = read_varint(message, place)
                found.setdefault(key >> 3, []).append(message[place : place + length])
                place += length
            case kind:
                place += 8 if kind == FIXED64 else 4
                found.setdefault(key >> 3, []).append(0)
    return found


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """The number at `place`, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
