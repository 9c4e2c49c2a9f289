"""Authenticates API keys, those of the settings and those in the store."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from onbeat.model.access import ApiKey
from onbeat.model.errors import Unauthorized, Unavailable
from onbeat.model.principal import ANONYMOUS, Principal
from onbeat.operations.context import OperationContext
from onbeat.rules.access import is_mistyped, matching, principal_of_key, read_configured_keys

FRESH_SECONDS: Final = 3.0  # how long a key revoked in another process still works
USE_NOTED_EVERY: Final = timedelta(minutes=1)


class Keyring:
    """Rereads the keys of the store when they are older than `FRESH_SECONDS`."""

    def __init__(self, configured: Sequence[str], context: OperationContext) -> None:
        self.configured = read_configured_keys(configured)
        self.store = context.store
        self.clock = context.clock
        self.kept: Sequence[ApiKey] | None = None
        self.read_at = 0.0
        self.reading = asyncio.Lock()
        self.used: dict[str, datetime] = {}

    async def principal(self, text: str | None) -> Principal:
        """The principal of a request with this key; `ANONYMOUS` where no keys exist.

        Raises `Unauthorized`, and `Unavailable` where only the store could tell.
        """
        # The checksum detects a typing error without a query.
        if text is not None and is_mistyped(text):
            raise Unauthorized("The API key is mistyped: its checksum does not fit")
        key = None if text is None else matching(self.configured, text)
        if key is None:
            kept = await self.fresh()
            if not kept and not self.configured:
                return ANONYMOUS
            key = None if text is None else matching(kept, text)
            if key is None:
                raise Unauthorized
            await self.note_use(key)
        if key.expires_at is not None and key.expires_at <= self.clock.now():
            raise Unauthorized("The API key has expired")
        return principal_of_key(key)

    async def fresh(self) -> Sequence[ApiKey]:
        """The keys of the store. If it had none and is away, no first key can have been added."""
        if self.kept is not None and self.is_fresh():
            return self.kept
        async with self.reading:
            if self.kept is not None and self.is_fresh():
                return self.kept
            try:
                self.kept = await self.store.keys()
            except Unavailable:
                if self.kept is None or self.kept:
                    raise
            self.read_at = self.clock.monotonic()
            return self.kept

    def is_fresh(self) -> bool:
        return self.clock.monotonic() - self.read_at < FRESH_SECONDS

    async def note_use(self, key: ApiKey) -> None:
        """At most one write per key and minute."""
        now = self.clock.now()
        last = self.used.get(key.name) or key.used_at
        if last is not None and now - last < USE_NOTED_EVERY:
            return
        self.used[key.name] = now
        with contextlib.suppress(Unavailable):
            await self.store.note_key_use(key.name, now)
