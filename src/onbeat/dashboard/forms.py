"""Forms that pages send without script: read within bounds, with the proof of their session."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from onbeat.api.requests import ANY_TYPE, read_body, unknown_parameter
from onbeat.api.security import FORM_TYPE, PRINCIPAL, UNPROVEN, session_token
from onbeat.model.errors import Invalid, Malformed, Unauthorized
from onbeat.rules.sessions import proves
from onbeat.wire.decode import load_json

FORM_BYTES_MAX: Final = 65_536
FIELDS_MAX: Final = 60
FORM_DEADLINE: Final = timedelta(seconds=10)
OF_EVERY_FORM: Final = frozenset({"proof", "once", "seen", "intent"})
OTHER_SESSION: Final = "This form belongs to another session: open the page again"

Texts = Mapping[str, str]
"""The fields of a form by name, as they were typed."""


async def read_fields(request: Request, bytes_max: int, fields_max: int) -> dict[str, str]:
    """The fields of a form; of a name that is given twice, the last. Raises `Malformed`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise Malformed(f"Content-Type must be {FORM_TYPE}")
    try:
        body = await read_body(request, bytes_max, FORM_DEADLINE, lambda: None, ANY_TYPE)
        text = (body or b"").decode()
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=fields_max)
    except ClientDisconnect as error:
        raise Malformed("The form ended before it was whole") from error
    except ValueError as error:
        raise Malformed(f"The form must be UTF-8, with at most {fields_max} fields") from error
    return {name: texts[-1].replace("\r\n", "\n") for name, texts in fields.items()}


def check_proof(request: Request, fields: Texts) -> None:
    """Let the form act for its session. Raises `Unauthorized` for one that another site made."""
    principal = request.scope.pop(UNPROVEN, None)
    if principal is None:
        return
    token = session_token(request)
    if token is None or not proves(token, fields.get("proof")):
        raise Unauthorized(OTHER_SESSION)
    request.scope[PRINCIPAL] = principal


def check_fields(texts: Texts, *known: str) -> None:
    """Raises `Invalid` for a field that the form does not have."""
    for name in texts:
        if name not in known and name not in OF_EVERY_FORM:
            raise unknown_parameter(name, known)


def json_of(texts: Texts, name: str) -> object:
    """The JSON in a field; None where it is blank. Raises `Invalid` with the field's name."""
    text = texts.get(name, "").strip()
    if not text:
        return None
    try:
        return load_json(text.encode(), FORM_BYTES_MAX)
    except Invalid as error:
        raise Invalid(f"This JSON cannot be read: {error}", name) from None


def object_of(texts: Texts, name: str) -> dict[str, Any] | None:
    value = json_of(texts, name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Invalid('This must be a JSON object, such as {"a": 1}', name)
    return cast("dict[str, Any]", value)


def list_of(texts: Texts, name: str) -> list[object] | None:
    value = json_of(texts, name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise Invalid("This must be a JSON array, such as [1, 2]", name)
    return cast("list[object]", value)


def whole_number(texts: Texts, name: str) -> int | None:
    text = texts.get(name, "").strip()
    if not text:
        return None
    if not text.lstrip("-").isdecimal() or not text.isascii() or len(text) > 12:
        raise Invalid("This must be a whole number", name)
    return int(text)
