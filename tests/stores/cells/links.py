"""A store that can be away or silent, and that counts what it is asked."""

import asyncio
from collections import Counter
from typing import Any

from onbeat.model.errors import Unavailable
from onbeat.ports.store import Store

NEVER_AWAY = frozenset({"url", "has_slots", "listen", "close"})


class Link:
    """Stands before a store, which counts what it is asked.

    While it `is_away`, and for the verbs in `broken`, each call fails; while it `is_silent`, a call
    has no answer at all.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_away = False
        self.is_silent = False
        self.broken: set[str] = set()
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.store, name)
        if name in NEVER_AWAY:
            return verb

        async def ask(*args: Any, **options: Any) -> Any:
            self.asked[name] += 1
            if self.is_silent:
                await asyncio.Event().wait()
            if self.is_away or name in self.broken:
                raise Unavailable("no answer")
            return await verb(*args, **options)

        return ask
