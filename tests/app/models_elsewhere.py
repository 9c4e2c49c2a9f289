"""A module with annotations that cannot all be resolved while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onbeat import Context

if TYPE_CHECKING:
    from nowhere import Thing  # type: ignore[import-not-found]  # nor is it found at runtime


async def handles(thing: Thing, n: int, context: Context) -> int:
    return n + context.attempt
