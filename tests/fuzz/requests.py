"""Requests with one long part, made of the API's own description."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from inputs.shapes import CRONS, JSON, RULES, TEXTS
from onbeat.api import openapi_json
from onbeat.dashboard.routes import FORMS, PAGES
from onbeat.operations.table import OPERATIONS

SIZES = (1_000, 10_000, 60_000, 100_000, 300_000, 1_000_000)
ID = "01900000-0000-7000-8000-000000000001"
TYPE = "application/json"
PLACES = ("path", "query", "header", "field", "new field", "body")
BODY_FIELDS = (
    "rrule",
    "cron",
    "every",
    "at",
    "name",
    "timezone",
    "callback_url",
    "queue",
    "unique",
)


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None

    def __str__(self) -> str:
        head = "".join(f" {name}: {value[:40]}" for name, value in self.headers.items())
        sent = self.body or b""
        return f"{self.method} {self.path[:100]}{head} {sent[:80]!r} ({len(sent)} bytes)"


class Described(NamedTuple):
    """One operation of the document."""

    method: str
    path: str
    query: tuple[str, ...]
    example: dict[str, Any] | None


PAGE_PARAMETERS = ("q", "state", "queue", "label", "before", "after", "from", "to", "key", "copy")

ENDLESS = {"/api/stream"}
"""Answers that have no end of their own."""


def described() -> list[Described]:
    document = msgspec.json.decode(openapi_json())
    return [
        Described(
            method=method.upper(),
            path=path,
            query=tuple(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"),
            example=example_of(operation),
        )
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict) and path not in ENDLESS
    ]


def pages() -> list[Described]:
    """The pages of the dashboard, with the parameters that some of them read."""
    return [Described("GET", path.replace(":path", ""), PAGE_PARAMETERS, None) for path in PAGES]


def forms() -> list[Described]:
    return [Described("POST", path, (), None) for path in FORMS]


def methods() -> list[Described]:
    """A call of each method of JSON-RPC, whose params are the body of its operation."""
    bodies = {(one.method, one.path): one.example for one in described()}
    return [
        Described(
            "POST",
            "/rpc",
            (),
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": one.name,
                "params": {"id": ID, **(bodies.get((one.method, one.path)) or {})},
            },
        )
        for one in OPERATIONS
    ]


def every_address() -> list[Described]:
    return [*described(), *methods(), *pages(), *forms()]


def example_of(operation: dict[str, Any]) -> dict[str, Any] | None:
    if "requestBody" not in operation:
        return None
    content = operation["requestBody"]["content"][TYPE]
    return content.get("example") or {}


def requests(seed: int, key: str) -> Iterator[Request]:
    """For ever, in rounds: to each address in a new order, with one part of the request long."""
    chance = random.Random(seed)
    operations = every_address()
    while True:
        chance.shuffle(operations)
        for operation in operations:
            where = chance.choice([*PLACES, "field"])
            yield request(chance, operation, {"Authorization": f"Bearer {key}"}, where)


def request(
    chance: random.Random, operation: Described, headers: dict[str, str], where: str
) -> Request:
    """One of this operation that is long in one of `PLACES`, if it has that place."""
    text = chance.choice((*TEXTS, *RULES, *CRONS))(chance.choice(SIZES))
    path, body = operation.path, None
    if where == "path" and "{" in path:
        path = path[: path.index("{")] + in_path(text) + path[path.index("}") + 1 :]
    path = (
        path.replace("{id}", ID)
        .replace("{key}", "k")
        .replace("{name}", "n")
        .replace("{fault}", "1")
        .replace("{group}", "1")
    )
    if where == "query" and operation.query:
        path += f"?{chance.choice(operation.query)}={in_path(text)}"
    if where == "header":
        name = chance.choice(["Idempotency-Key", "Authorization", "Host", "Content-Type", "X-A"])
        headers = headers | {name: text.encode("ascii", "replace").decode().replace("\n", " ")}
    if operation.example is not None:
        body = changed_body(chance, operation.example, where, text)
        headers = {"Content-Type": TYPE} | headers
    return Request(operation.method, path, headers, body)


def in_path(text: str) -> str:
    """Of what goes on after a refusal the service drops a mebibyte, and then reads no more; a
    client that sends all before it reads would measure how long its connection stays open.
    """
    return quote(text, safe="")[: SIZES[-1] - SIZES[1]]


def changed_body(chance: random.Random, example: dict[str, Any], where: str, text: str) -> bytes:
    if where == "body":
        return bytes(chance.choice(JSON)(chance.choice(SIZES)))
    fields = dict(example)
    if where == "field" and fields:
        name = chance.choice(sorted(fields))
        fields[name] = made_long(chance, fields[name], text)
    if where == "new field":
        fields[chance.choice(BODY_FIELDS)] = text
    return json.dumps(fields).encode()


def made_long(chance: random.Random, value: Any, text: str) -> Any:
    match value:
        case dict() if value and chance.random() < 0.5:
            name = chance.choice(sorted(value))
            return value | {name: made_long(chance, value[name], text)}
        case dict():
            return {f"{number}{text[:5]}": 0 for number in range(len(text) // 8)}
        case list():
            return [text[:8]] * (len(text) // 8)
        case _:
            return text
