"""What an expression reads: names, and members of them as far as its text tells."""

from collections.abc import Iterator

from onbeat.expressions.syntax import Collection, Constant, FunctionCall, Loop, Member, Name, Node
from onbeat.model.condition import Read


def reads_of(tree: Node, text: str) -> tuple[Read, ...]:
    """Each name, `name.member` and `name['member']`; variables of loops are no names."""
    return tuple(
        Read(name.name, member, place(text, name.at), is_test)
        for name, member, is_test in reads(tree, frozenset())
    )


def reads(node: Node, variables: frozenset[str]) -> Iterator[tuple[Name, str | None, bool]]:
    found: list[tuple[Name, str | None, bool]]
    match node:
        case Name():
            found = [(node, None, False)]
        case Member(operand=Name() as name, field=field, is_test=is_test):
            found = [(name, field, is_test)]
        case FunctionCall(function="_[_]", arguments=(Name() as name, Constant(text=str(field)))):
            found = [(name, field, False)]
        case _:
            yield from inner_reads(node, variables)
            return
    yield from (read for read in found if read[0].name not in variables)


def inner_reads(node: Node, variables: frozenset[str]) -> Iterator[tuple[Name, str | None, bool]]:
    match node:
        case Member(operand=operand):
            yield from reads(operand, variables)
        case FunctionCall(arguments=parts) | Collection(parts=parts):
            for part in parts:
                yield from reads(part, variables)
        case Loop():
            yield from reads(node.range, variables)
            yield from reads(node.start, variables)
            inner = variables | {node.variable, node.result_variable}
            for part in (node.condition, node.step, node.result):
                yield from reads(part, inner)
        case _:
            pass


def place(text: str, at: int) -> str:
    """`line 2, column 5`, both from 1."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - before.rfind(chr(10))}"
