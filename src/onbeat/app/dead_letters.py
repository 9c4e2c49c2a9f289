"""`beat.dead_letters`: messages that could not be processed."""

from collections.abc import Sequence

from onbeat.app.backend import Backend
from onbeat.app.pages import items_of_pages
from onbeat.model.limits import REPLAY_MAX
from onbeat.operations.tables.failures import (
    DEAD_DELETE,
    DEAD_DELETE_GROUP,
    DEAD_GROUPS,
    DEAD_LIST,
    DEAD_REPLAY,
    DEAD_REPLAY_GROUP,
    DEAD_SHOW,
)
from onbeat.wire.dead_letters import DeadLetterAnswer, DeadLetterDetail, Replayed
from onbeat.wire.failures import (
    DeadLetterGroup,
    DeadLetterGroupById,
    GroupReplayed,
    ListDeadLetterGroups,
    ReplayBody,
)
from onbeat.wire.requests import DeadLetterById, ListDeadLetters


class DeadLetters:
    """Messages that could not be processed, by id and by group."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(self, *, source: str | None = None, limit: int = 100) -> Sequence[DeadLetterAnswer]:
        """Dead letters without their bodies, newest first; of one source, or of all."""
        return self._backend.wait_for(self.alist(source=source, limit=limit))

    async def alist(
        self, *, source: str | None = None, limit: int = 100
    ) -> Sequence[DeadLetterAnswer]:
        async def ask(
            size: int, cursor: str | None
        ) -> tuple[Sequence[DeadLetterAnswer], str | None]:
            request = ListDeadLetters(source=source, limit=size, cursor=cursor)
            page = await self._backend.call(DEAD_LIST, request)
            return page.letters, page.cursor

        return await items_of_pages(limit, ask)

    def show(self, id: str) -> DeadLetterDetail:
        """One dead letter with its body. Raises `NotFound`."""
        return self._backend.wait_for(self.ashow(id))

    async def ashow(self, id: str) -> DeadLetterDetail:
        return await self._backend.call(DEAD_SHOW, DeadLetterById(id))

    def replay(self, id: str) -> Replayed:
        """Process its message like a new one; it is deleted on success, else kept with the reason.

        Raises `NotFound`, and `Conflict` for a message that only its sender can send again.
        """
        return self._backend.wait_for(self.areplay(id))

    async def areplay(self, id: str) -> Replayed:
        return await self._backend.call(DEAD_REPLAY, DeadLetterById(id))

    def delete(self, id: str) -> None:
        """Raises `NotFound`."""
        self._backend.wait_for(self.adelete(id))

    async def adelete(self, id: str) -> None:
        await self._backend.call(DEAD_DELETE, DeadLetterById(id))

    def groups(self, *, limit: int = 100) -> Sequence[DeadLetterGroup]:
        """Dead letters by source and reason, the group with the newest first."""
        return self._backend.wait_for(self.agroups(limit=limit))

    async def agroups(self, *, limit: int = 100) -> Sequence[DeadLetterGroup]:
        request = ListDeadLetterGroups(limit=limit)
        return (await self._backend.call(DEAD_GROUPS, request)).groups

    def replay_group(
        self, group: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        """Replay dead letters of the group, newest first, at most `limit`; a dry run counts them.

        Raises `NotFound`.
        """
        return self._backend.wait_for(self.areplay_group(group, dry_run=dry_run, limit=limit))

    async def areplay_group(
        self, group: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        how = ReplayBody(dry_run=dry_run, limit=limit)
        return await self._backend.call(DEAD_REPLAY_GROUP, DeadLetterGroupById(group, how))

    def delete_group(
        self, group: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        """Delete dead letters of the group, newest first; likewise."""
        return self._backend.wait_for(self.adelete_group(group, dry_run=dry_run, limit=limit))

    async def adelete_group(
        self, group: str, *, dry_run: bool = False, limit: int = REPLAY_MAX
    ) -> GroupReplayed:
        how = ReplayBody(dry_run=dry_run, limit=limit)
        return await self._backend.call(DEAD_DELETE_GROUP, DeadLetterGroupById(group, how))
