"""How the OpenAPI document describes the forms of events."""

from typing import Any, Final

from onbeat.wire.cloud_events import BATCHED, STRUCTURED, VERSION

EXAMPLE: Final[dict[str, Any]] = {
    "type": "order.paid",
    "source": "/shop",
    "id": "order-7",
    "data": {"order": 7, "amount": 59.9},
}
CLOUD_EVENT: Final[dict[str, Any]] = {"specversion": VERSION, **EXAMPLE}
ONE: Final = {"$ref": "#/components/schemas/EventBody"}
EITHER: Final = {"$ref": "#/components/schemas/PublishBody"}


def several(form: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": form}


CONTENT: Final[dict[str, Any]] = {
    "application/json": {"schema": {"anyOf": [EITHER, several(ONE)]}, "example": EXAMPLE},
    STRUCTURED: {"schema": ONE, "example": CLOUD_EVENT},
    BATCHED: {"schema": several(ONE), "example": [CLOUD_EVENT]},
}
"""The bodies by content type. In binary mode the body is the data, of any type."""

HEADERS: Final = {
    "ce-specversion": "Binary mode: the attributes are headers, percent-encoded, the body is the"
    " data, and Content-Type is its type. Always 1.0",
    "ce-id": "Binary mode: the event's id",
    "ce-source": "Binary mode: the event's source",
    "ce-type": "Binary mode: the event's type",
    "ce-subject": "Binary mode: the event's subject",
    "ce-time": "Binary mode: when it happened",
}


def header_parameters() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": {"type": "string"},
        }
        for name, text in HEADERS.items()
    ]
