"""What all answers to programs can do."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


def plain_value(text: msgspec.Raw | UnsetType) -> Any:
    """The value of the JSON, made anew at each call; UNSET stays."""
    return UNSET if text is UNSET else msgspec.json.decode(text)


class AnswerRecord(msgspec.Struct, frozen=True):
    """An answer, with the fields of REST.

    Values of any form are kept as they came, `result_json`, and decoded when read, `result`.
    """

    def __repr__(self) -> str:
        """The plain values, as `to_dict` gives them."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """The answer in plain JSON values, as REST gives it.

        Instants and spans are texts, fields that are not set are left out.
        """
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> dict[str, Any]:
        """How pydantic, which asks for this, takes an answer as a field or writes it as JSON."""
        return {
            "type": "is-instance",
            "cls": cls,
            "serialization": {"type": "function-plain", "function": cls.to_dict},
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: object, _handler: object) -> dict[str, Any]:
        """Its title only: `GET /docs/openapi.json` of a service describes the fields."""
        return {"title": cls.__name__, "type": "object"}
