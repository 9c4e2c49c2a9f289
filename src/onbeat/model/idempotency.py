"""Idempotency keys: the stored record of a request that its caller may repeat."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from onbeat.model.ids import JobId


class KeyedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with an idempotency key, stored in the same transaction as its effects.

    `digest` identifies principal, operation and key, `fingerprint` identifies the body. `answer`
    encodes a verb's result into the stored bytes; if it raises, nothing is written. The key is kept
    while a job with an id from `first_job` to `last_job` is live.
    """

    digest: bytes
    fingerprint: bytes
    made_at: datetime
    answer: Callable[[Any], bytes]
    first_job: JobId | None = None
    last_job: JobId | None = None


class KeyedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stored answer to the first request with a key, and the time of that request."""

    fingerprint: bytes
    made_at: datetime
    answer: bytes


class StoredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that took effect, as it is kept for its repeats.

    `kept_from` is the start of its retention; see `KeyedRequest` for the rest.
    """

    digest: bytes
    answer: KeyedAnswer
    kept_from: datetime
    first_job: JobId | None = None
    last_job: JobId | None = None
