"""JSON documents of a file, each with its line: a list, several lists, or one document per line."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from onbeat.cli.imports.records import UnreadableSource

BLANK: Final = re.compile(r"[\s,]*")
DECODER: Final = json.JSONDecoder()


class Document(NamedTuple):
    """A JSON object, its text, and the line on which it begins."""

    value: Mapping[str, Any]
    text: str
    line: int

    def line_of(self, field: str) -> int:
        """The line of the first field of that name, or of the document."""
        match = re.search(rf'"{re.escape(field)}"\s*:', self.text)
        return self.line_at(match.start() if match else 0)

    def line_at(self, place: int) -> int:
        """The line of this place in the text."""
        return self.line + self.text.count("\n", 0, place)


def read_documents(text: str, *lists: str) -> Iterator[Document]:
    """The objects of the file, or those in a field that is named by `lists`.

    Raises `UnreadableSource` with the line of what is no JSON.
    """
    at, line, depth = 0, 1, 0
    while True:
        step = BLANK.match(text, at)
        after = step.end() if step else at
        line += text.count("\n", at, after)
        at = after
        if at == len(text):
            return
        if text[at] in "[]":
            depth += 1 if text[at] == "[" else -1
            at += 1
            continue
        value, end = decoded(text, at, line)
        document = Document(value, text[at:end], line)
        inner = list(lists_in(document, lists)) if depth == 0 else []
        for one in inner:
            yield from read_documents_after(document.text[one:], document.line_at(one))
        if not inner:
            yield document
        line += text.count("\n", at, end)
        at = end


def read_documents_after(text: str, line: int) -> Iterator[Document]:
    """The objects of the list that begins here."""
    at = 1
    while True:
        step = BLANK.match(text, at)
        after = step.end() if step else at
        line += text.count("\n", at, after)
        at = after
        if at == len(text) or text[at] == "]":
            return
        value, end = decoded(text, at, line)
        yield Document(value, text[at:end], line)
        line += text.count("\n", at, end)
        at = end


def lists_in(document: Document, names: tuple[str, ...]) -> Iterator[int]:
    """Where the lists of these names begin, if the object is the answer of a service."""
    for name in names:
        if is_list(document.value.get(name)):
            match = re.search(rf'"{re.escape(name)}"\s*:\s*(?=\[)', document.text)
            if match:
                yield match.end()


def decoded(text: str, at: int, line: int) -> tuple[Mapping[str, Any], int]:
    try:
        value, end = DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        there = line + text.count("\n", at, error.pos)
        raise UnreadableSource(f"not JSON: {error.msg}", there) from None
    except RecursionError:
        raise UnreadableSource("not JSON: too many values within one another", line) from None
    if not is_object(value):
        raise UnreadableSource("each schedule is a JSON object", line)
    return value, end


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def object_of(value: object) -> Mapping[str, Any]:
    """The object, or an empty one in place of any other value."""
    return value if is_object(value) else {}


def text_of(value: object) -> str | None:
    """The text, if it is one and not empty."""
    return value if isinstance(value, str) and value else None


def unknown_fields(
    value: Mapping[str, Any], known: frozenset[str], plain: tuple[str, ...] = ()
) -> list[str]:
    """Fields that no reader knows, but for those that are empty or have a plain value."""
    return sorted(
        name
        for name, one in value.items()
        if name not in known and one not in EMPTY and one not in plain
    )


EMPTY: Final[tuple[object, ...]] = (None, "", [], {}, False)
