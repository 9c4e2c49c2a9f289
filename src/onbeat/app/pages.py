"""Listings that are longer than a page."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from onbeat.app.call import require_kind
from onbeat.model.errors import Invalid
from onbeat.model.limits import PAGE_LIMIT_MAX

Item = TypeVar("Item")


async def items_of_pages(
    limit: int, ask: Callable[[int, str | None], Awaitable[tuple[Sequence[Item], str | None]]]
) -> tuple[Item, ...]:
    """The first `limit` items, from as many pages as they take.

    `ask` gets the items of a page and its cursor, and answers the page with that of the next.
    Raises `Invalid` for a limit that is no whole number, or less than 1.
    """
    if require_kind("limit", limit, int, "a whole number") < 1:
        raise Invalid("limit must be at least 1", "limit")
    items, cursor = await ask(min(limit, PAGE_LIMIT_MAX), None)
    found = list(items)
    while cursor is not None and len(found) < limit:
        items, cursor = await ask(min(limit - len(found), PAGE_LIMIT_MAX), cursor)
        found += items
    return tuple(found)
