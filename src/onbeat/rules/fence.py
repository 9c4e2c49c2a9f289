"""Sealed lease tokens: the form of tokens outside the store, which only the store can create."""

import hmac
import re
from base64 import urlsafe_b64encode
from typing import Final

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.model.limits import INTEGER_MAX

SECRET_BYTES: Final = 32
SEAL_BYTES: Final = 16  # as hard to guess as a UUID, and short enough for any header
FORM: Final = re.compile(r"(?P<number>0|[1-9][0-9]{0,18})\.(?P<seal>[A-Za-z0-9_-]{22})", re.ASCII)


class Fence(msgspec.Struct, frozen=True):
    """Seals tokens with the store's secret.

    A token in the store is a number that rises with each claim, so it can be guessed. A remote
    worker receives the number with a keyed digest of the job and the number.
    """

    secret: bytes

    def seal(self, id: JobId, token: Token) -> str:
        return f"{token}.{self.digest(id, token)}"

    def open(self, id: JobId, text: str) -> Token | None:
        """The token that was sealed; None if the seal is forged or belongs to another job."""
        match = FORM.fullmatch(text)
        if match is None or int(match["number"]) > INTEGER_MAX:
            return None
        token = Token(int(match["number"]))
        is_ours = hmac.compare_digest(match["seal"], self.digest(id, token))
        return token if is_ours else None

    def digest(self, id: JobId, token: Token) -> str:
        return self.digest_of(f"lease\n{id}\n{token}")

    def digest_of(self, text: str) -> str:
        made = hmac.digest(self.secret, text.encode(), "sha256")
        return urlsafe_b64encode(made[:SEAL_BYTES]).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return "Fence(…)"
