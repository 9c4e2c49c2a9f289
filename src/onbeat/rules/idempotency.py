"""Idempotency keys: which requests are the same, and how their responses are kept."""

import hmac
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.ids import JobId
from onbeat.rules.derived_ids import derived_id

HEADER: Final = "Idempotency-Key"

FINGERPRINT_BYTES: Final = 16
SHOWN_CHARS: Final = 8  # of fingerprints in messages

# Larger answers are compressed: ids of jobs made together differ only in their last digits.
PLAIN_BYTES_MAX: Final = 512
OPEN_OF_PLAIN: Final = b"{"


class RequestKey(msgspec.Struct, frozen=True):
    """The hashed key of the current request, with the fingerprint of its body."""

    digest: bytes
    fingerprint: bytes
    at: datetime

    def id_at(self, place: int) -> str:
        """An id for what the request makes at this place, the same wherever `at` is."""
        return derived_id(f"{self.digest.hex()}\n{self.fingerprint.hex()}\n{place}", self.at)

    def request(self, answer: Callable[[Any], object], ids: Sequence[str]) -> KeyedRequest:
        """The record that a store writes; `ids` are the jobs that the request creates."""
        return KeyedRequest(
            digest=self.digest,
            fingerprint=self.fingerprint,
            made_at=self.at,
            answer=lambda result: compress_answer(msgspec.json.encode(answer(result))),
            first_job=JobId(min(ids)) if ids else None,
            last_job=JobId(max(ids)) if ids else None,
        )


def digest_of(principal: str, operation: str, key: str) -> bytes:
    """A digest of principal, operation and key. The key itself is not kept."""
    return sha256(msgspec.json.encode((principal, operation, key))).digest()


def fingerprint_of(key: str, body: bytes) -> bytes:
    """Equal for JSON of equal meaning. Without the key it reveals nothing about the body."""
    plain = msgspec.json.encode(msgspec.json.decode(body), order="deterministic")
    return hmac.digest(key.encode(), plain, "sha256")[:FINGERPRINT_BYTES]


def check_same(first: KeyedAnswer, fingerprint: bytes) -> None:
    """Raises `Invalid` if the key was used with another body before."""
    if not hmac.compare_digest(first.fingerprint, fingerprint):
        raise Invalid(
            f"{HEADER}: this key was used at {first.made_at:%Y-%m-%dT%H:%M:%SZ} with another body "
            f"(fingerprint {short_fingerprint(first.fingerprint)},"
            f" now {short_fingerprint(fingerprint)}); repeat that "
            "body, or send a new key",
            HEADER,
        )


def short_fingerprint(fingerprint: bytes) -> str:
    return fingerprint.hex()[:SHOWN_CHARS]


def compress_answer(answer: bytes) -> bytes:
    return answer if len(answer) <= PLAIN_BYTES_MAX else zlib.compress(answer, 1)


def decompress_answer(answer: bytes) -> bytes:
    return answer if answer.startswith(OPEN_OF_PLAIN) else zlib.decompress(answer)
