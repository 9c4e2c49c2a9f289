"""Renders Helm templates: the part of Go's text/template and of Helm's functions that ours use.

Anything else is refused, so that a template never renders here to what Helm would not make of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

TAG: Final = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
WORD: Final = re.compile(
    r'\s*(:=|"[^"]*"|\d+|[()|,]|\$?[A-Za-z_]\w*(?:\.\w+)*|\$(?:\.\w+)*|\.[\w.]*)'
)

Node = tuple[str, Any, list[Any], list[Any]]
"""The kind, its words or its text, the nodes within, and those of the `else`."""


class RefusedTemplate(Exception):
    """The template says what ours never say, or `required` has failed."""


class Chart:
    """The templates of a folder. `files` are rendered, `parts` are what they include."""

    def __init__(self, folder: Path) -> None:
        self.parts: dict[str, list[Any]] = {}
        self.files = {path.name: self.parse(path) for path in sorted(folder.glob("*.*"))}

    def parse(self, path: Path) -> list[Any]:
        nodes = read_nodes(pieces_of(path.read_text("utf-8")), ends=())[0]
        for kind, words, within, _ in nodes:
            if kind == "define":
                self.parts[words[0].strip('"')] = within
        return nodes

    def render(self, name: str, root: Mapping[str, Any]) -> str:
        return self.text(self.files[name], root, {"$": root})

    def text(self, nodes: list[Any], dot: Any, names: dict[str, Any]) -> str:
        return "".join(self.node_text(node, dot, names) for node in nodes)

    def node_text(self, node: Node, dot: Any, names: dict[str, Any]) -> str:
        kind, words, within, others = node
        match kind:
            case "text":
                return str(words)
            case "define":
                return ""
            case "value":
                return shown(self.value(words, dot, names))
            case "if":
                is_true = bool(self.value(words, dot, names))
                return self.text(within if is_true else others, dot, names)
            case "with":
                value = self.value(words, dot, names)
                return self.text(within, value, names) if value else ""
            case _:
                return self.range_text(words, within, dot, names)

    def range_text(self, words: list[str], within: list[Any], dot: Any, names: Any) -> str:
        if ":=" not in words:
            values = self.value(words, dot, names) or ()
            return "".join(self.text(within, value, names) for value in values)
        key, _, item, _, *rest = words
        values = self.value(rest, dot, names) or {}
        return "".join(
            self.text(within, values[one], names | {key: one, item: values[one]})
            for one in sorted(values)
        )

    def value(self, words: list[str], dot: Any, names: dict[str, Any]) -> Any:
        """The value of a pipeline: each command's is the last argument of the next."""
        piped: list[Any] = []
        for command in commands_of(words):
            piped = [self.call(command, piped, dot, names)]
        return piped[0]

    def call(self, words: list[str], piped: list[Any], dot: Any, names: dict[str, Any]) -> Any:
        operands = list(self.operands(words, dot, names))
        head, *rest = operands
        if not callable(head):
            if rest or piped:
                raise RefusedTemplate(f"not a function: {words}")
            return head
        return head(*rest, *piped)

    def operands(self, words: list[str], dot: Any, names: dict[str, Any]) -> Iterator[Any]:
        at = 0
        while at < len(words):
            word = words[at]
            if word == "(":
                end = closing(words, at)
                yield self.value(words[at + 1 : end], dot, names)
                at = end
            else:
                yield self.operand(word, dot, names)
            at += 1

    def operand(self, word: str, dot: Any, names: dict[str, Any]) -> Any:
        if word.startswith('"'):
            return word[1:-1]
        if word.isdigit():
            return int(word)
        if word.startswith("."):
            return field_of(dot, word[1:])
        if word.startswith("$"):
            name, _, path = word.partition(".")
            return field_of(names[name], path)
        if word == "include":
            return lambda part, value: self.text(self.parts[part], value, {"$": value})
        if word not in FUNCTIONS:
            raise RefusedTemplate(f"unknown function {word}")
        return FUNCTIONS[word]


def field_of(value: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        if value is None:
            raise RefusedTemplate(f"nothing has the field {name}")
        value = value.get(name)
    return value


def commands_of(words: list[str]) -> Iterator[list[str]]:
    depth, command = 0, list[str]()
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "|" and not depth:
            yield command
            command = []
        else:
            command.append(word)
    yield command


def closing(words: list[str], start: int) -> int:
    depth = 0
    for at in range(start, len(words)):
        depth += (words[at] == "(") - (words[at] == ")")
        if not depth:
            return at
    raise RefusedTemplate(f"a parenthesis is open in {words}")


def pieces_of(text: str) -> Iterator[tuple[str, Any]]:
    """Texts and the words of tags, in turn; a dash takes the blanks beside its tag."""
    at, trim = 0, False
    for tag in TAG.finditer(text):
        plain = text[at : tag.start()]
        plain = plain.lstrip() if trim else plain
        yield "text", plain.rstrip() if tag[1] else plain
        if not tag[2].startswith("/*"):
            yield "tag", words_of(tag[2])
        at, trim = tag.end(), bool(tag[3])
    yield "text", text[at:].lstrip() if trim else text[at:]


def words_of(text: str) -> list[str]:
    words, at = list[str](), 0
    while at < len(text.rstrip()):
        found = WORD.match(text, at)
        if found is None:
            raise RefusedTemplate(f"cannot read {text[at:]!r}")
        words.append(found[1])
        at = found.end()
    return words


def read_nodes(
    pieces: Iterator[tuple[str, Any]], ends: tuple[str, ...] = ("end", "else")
) -> tuple[list[Any], str]:
    """The nodes up to an end, and that end."""
    nodes: list[Any] = []
    for kind, value in pieces:
        if kind == "text":
            nodes.append(("text", value, [], []))
        elif value[0] in ends:
            return nodes, value[0]
        elif value[0] in {"if", "with", "range", "define"}:
            within, end = read_nodes(pieces)
            others = read_nodes(pieces)[0] if end == "else" else []
            nodes.append((value[0], value[1:], within, others))
        else:
            nodes.append(("value", value, [], []))
    if ends:
        raise RefusedTemplate("an `end` is missing")
    return nodes, ""


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise RefusedTemplate(f"{value!r} has no text")
    return str(value)


def required(message: str, value: Any) -> Any:
    if value in (None, ""):
        raise RefusedTemplate(message)
    return value


def indented(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line for line in text.split("\n"))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "default": lambda other, value: value or other,
    "has": lambda item, values: item in values,
    "nindent": indented,
    "quote": lambda value: '"' + shown(value).replace("\\", "\\\\").replace('"', '\\"') + '"',
    "required": required,
    "splitList": lambda mark, text: text.split(mark),
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).rstrip("\n"),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda length, text: text[:length],
}
