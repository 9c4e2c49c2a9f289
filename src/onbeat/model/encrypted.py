"""The format of a text that is encrypted at rest."""

import re
from typing import Final

from onbeat.model.errors import Invalid, Undecryptable

ENCRYPTED: Final = "onbeat-encrypted.v1."
"""Prefix of every encrypted text; the id of the key, a dot, and base64url follow."""

FORM: Final = re.compile(
    r"onbeat-encrypted\.v1\.(?P<key_id>[A-Za-z0-9_-]{1,32})\.(?P<content>[A-Za-z0-9_-]+)", re.ASCII
)


def is_encrypted(text: str) -> bool:
    """Whether the text is encrypted at rest."""
    return text.startswith(ENCRYPTED)


def encrypted_text(key_id: str, content: str) -> str:
    return f"{ENCRYPTED}{key_id}.{content}"


def read_encrypted(text: str) -> tuple[str, str]:
    """The id of the key, and the content. Raises `Undecryptable` for another format."""
    form = FORM.fullmatch(text)
    if form is None:
        raise Undecryptable("an encrypted text is not of the form that this version knows")
    return form["key_id"], form["content"]


def missing_key(text: str) -> Undecryptable:
    """The error for a text whose key is not configured here."""
    key_id, _ = read_encrypted(text)
    return Undecryptable(f"its encryption key {key_id!r} is not in `secrets.keys` here")


def check_in_clear(text: str, field: str) -> None:
    """Raises `Invalid` for a text that could be mistaken for an encrypted one."""
    if ENCRYPTED in text:
        raise Invalid(f"{field} holds {ENCRYPTED!r}, which begins what is encrypted", field)
