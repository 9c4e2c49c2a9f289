"""`beat.failures`: failures that are alike, by fault."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.call import Span, check_keywords, instants
from onbeat.app.pages import items_of_pages
from onbeat.app.queues import in_seconds
from onbeat.model.limits import PAGE_LIMIT_MAX, REPLAY_MAX
from onbeat.operations.tables.failures import (
    FAILURE_LIST,
    FAILURE_NOTE,
    FAILURE_REPLAY,
    FAILURE_SHOW,
    FAILURE_SILENCE,
)
from onbeat.wire.failures import (
    FailureById,
    FailureInfo,
    FailureOrder,
    GroupReplayed,
    ListFailures,
    NoteBody,
    NoteFailure,
    ReplayBody,
    ReplayFailures,
)


class FailureFilters(TypedDict, total=False):
    """Filters for listed failures: `q` is a part of the title, `since` bounds the latest one."""

    q: str | None
    queue: str | None
    task: str | None
    since: datetime | None


class Failures:
    """Failures by fault: what failed attempts that are alike have in common."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(
        self,
        *,
        order: FailureOrder = "last",
        limit: int = PAGE_LIMIT_MAX,
        **filters: Unpack[FailureFilters],
    ) -> Sequence[FailureInfo]:
        """Latest failure first, or by `order`: most attempts, or latest first failure."""
        return self._backend.wait_for(self.alist(order=order, limit=limit, **filters))

    async def alist(
        self,
        *,
        order: FailureOrder = "last",
        limit: int = PAGE_LIMIT_MAX,
        **filters: Unpack[FailureFilters],
    ) -> Sequence[FailureInfo]:
        check_keywords("failures.list", filters, FailureFilters.__annotations__)
        fields = instants(filters)

        async def ask(size: int, cursor: str | None) -> tuple[Sequence[FailureInfo], str | None]:
            request = ListFailures(order=order, limit=size, cursor=cursor, **fields)
            page = await self._backend.call(FAILURE_LIST, request)
            return page.failures, page.cursor

        return await items_of_pages(limit, ask)

    def show(self, fault: str) -> FailureInfo:
        """One fault with its newest jobs. Raises `NotFound`."""
        return self._backend.wait_for(self.ashow(fault))

    async def ashow(self, fault: str) -> FailureInfo:
        return await self._backend.call(FAILURE_SHOW, FailureById(fault))

    def silence(self, fault: str, span: Span | None, note: str | None = None) -> FailureInfo:
        """Leave it out of what needs somebody for so long; None ends that."""
        return self._backend.wait_for(self.asilence(fault, span, note))

    async def asilence(self, fault: str, span: Span | None, note: str | None = None) -> FailureInfo:
        until: dict[str, Any] = {"until": None} if span is None else {"for": in_seconds(span)}
        body = msgspec.json.encode({**until, "note": note})
        return await self._backend.ask(FAILURE_SILENCE, {"fault": fault}, body)

    def note(self, fault: str, text: str) -> FailureInfo:
        """Write a note about it for others who look; an empty text deletes it.

        Raises `Invalid` where it is too long, and `NotFound`.
        """
        return self._backend.wait_for(self.anote(fault, text))

    async def anote(self, fault: str, text: str) -> FailureInfo:
        request = NoteFailure(fault, NoteBody(text=text))
        return await self._backend.call(FAILURE_NOTE, request)

    def replay(
        self, fault: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        """Retry failed jobs of the fault, newest first, at most `limit`."""
        return self._backend.wait_for(self.areplay(fault, dry_run=dry_run, limit=limit))

    async def areplay(
        self, fault: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        request = ReplayFailures(fault, ReplayBody(dry_run=dry_run, limit=limit))
        return await self._backend.call(FAILURE_REPLAY, request)
