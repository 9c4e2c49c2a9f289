"""Authenticates API keys, those of the settings and those in the store."""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.access import ApiKey
from onbeat.model.errors import Unauthorized, Unavailable
from onbeat.model.principal import ANONYMOUS, Principal
from onbeat.operations.context import OperationContext
from onbeat.rules.access import (
    SECRET_BYTES,
    is_mistyped,
    matching,
    new_key,
    principal_of_key,
    read_configured_keys,
)
from onbeat.rules.sessions import is_session, new_session, opener_of, to_close

FRESH_SECONDS: Final = 3.0  # how long a key revoked in another process still works
USE_NOTED_EVERY: Final = timedelta(minutes=1)
SESSION_OVER: Final = "The session is over: log in again"


class Keyring:
    """Rereads the keys of the store when they are older than `FRESH_SECONDS`."""

    def __init__(self, configured: Sequence[str], context: OperationContext) -> None:
        self.configured = read_configured_keys(configured)
        self.store = context.store
        self.clock = context.clock
        self.kept: Sequence[ApiKey] | None = None
        self.read_at = 0.0
        self.reading = asyncio.Lock()
        self.readings = 0
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
            kept = self.held(await self.fresh())
            if not kept and not self.configured:
                return ANONYMOUS
            key = None if text is None else await self.stored_key(kept, text)
            if key is None:
                raise Unauthorized
            await self.note_use(key)
        if key.expires_at is not None and key.expires_at <= self.clock.now():
            raise Unauthorized("The API key has expired")
        return principal_of_key(key)

    async def stored_key(self, kept: Sequence[ApiKey], text: str) -> ApiKey | None:
        """The key with this text, which may have been made just now."""
        return matching(kept, text) or matching(self.held(await self.reread()), text)

    def held(self, kept: Sequence[ApiKey]) -> Sequence[ApiKey]:
        """Those that people and programs hold, without sessions."""
        return [key for key in kept if not is_session(key)]

    async def session_principal(self, token: str) -> Principal:
        """The principal of a browser's session. Raises `Unauthorized` where it is over."""
        kept = await self.fresh()
        if not self.parents(kept):
            return ANONYMOUS
        session = matching(filter(is_session, kept), token)
        if session is None:
            # Another process may have opened it just now.
            kept = await self.reread()
            session = matching(filter(is_session, kept), token)
        if session is None:
            raise Unauthorized(SESSION_OVER)
        now, parents = self.clock.now(), self.parents(kept)
        opener = opener_of(self.as_used(session), token, parents, now)
        if opener is None:
            raise Unauthorized(SESSION_OVER)
        await self.note_use(session)
        return principal_of_key(opener)

    def parents(self, kept: Sequence[ApiKey]) -> Sequence[ApiKey]:
        """All keys from which sessions come."""
        return [*self.configured, *self.held(kept)]

    def as_used(self, session: ApiKey) -> ApiKey:
        """With its last use, in this process or in another, which the store knows later."""
        uses = [at for at in (self.used.get(session.name), session.used_at) if at is not None]
        return msgspec.structs.replace(session, used_at=max(uses, default=None))

    async def open_session(self, text: str) -> str:
        """The token of a new session of the key with this text. Raises `Unauthorized`."""
        await self.principal(text)
        kept = await self.store.keys()
        parents = self.parents(kept)
        parent = matching(parents, text)
        if parent is None:
            raise Unauthorized
        now = self.clock.now()
        for name in to_close([*filter(is_session, kept)], parents, parent.name, now):
            await self.store.remove_key(name)
        token = new_key(secrets.token_bytes(SECRET_BYTES))
        await self.store.add_key(new_session(parent, token, now))
        await self.reread()
        return token

    async def close_session(self, token: str) -> None:
        """Every process rejects it within seconds."""
        session = matching(filter(is_session, await self.store.keys()), token)
        if session is not None:
            await self.store.remove_key(session.name)
        await self.reread()

    async def fresh(self) -> Sequence[ApiKey]:
        """The keys of the store. If it had none and is away, no first key can have been added."""
        if self.kept is not None and self.is_fresh():
            return self.kept
        async with self.reading:
            if self.kept is not None and self.is_fresh():
                return self.kept
            return await self.read()

    async def reread(self) -> Sequence[ApiKey]:
        """The same by a reading that began after this call. All who wait share one reading.

        So wrong keys and sessions, however many, make one query at a time.
        """
        before = self.readings
        async with self.reading:
            if self.kept is not None and self.readings > before:
                return self.kept
            return await self.read()

    async def read(self) -> Sequence[ApiKey]:
        self.readings += 1
        try:
            self.kept = await self.store.keys()
        except Unavailable:
            if self.kept is None or self.kept:
                raise
        self.read_at = self.clock.monotonic()
        names = {key.name for key in self.kept}
        self.used = {name: at for name, at in self.used.items() if name in names}
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
