"""`beat.keys`: the API keys of the store, and the sessions of the dashboard."""

from collections.abc import Sequence

from msgspec import UNSET

from onbeat.app.backend import Backend
from onbeat.app.call import Span
from onbeat.app.queues import in_seconds
from onbeat.operations.tables.administration import KEY_CREATE, KEY_LIST, KEY_REVOKE, SESSION_LIST
from onbeat.wire.access import CreatedKey, CreateKey, KeyAnswer, KeyByName, KeyDraft
from onbeat.wire.requests import NoParams
from onbeat.wire.settings import SessionAnswer


class Keys:
    """The API keys of the store by name, and the sessions of the dashboard."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        queues: Sequence[str] | None = None,
        expires: Span | None = None,
    ) -> CreatedKey:
        """Make a key; the answer is the only place where it is shown.

        It may work on jobs of `queues`, by default of all, and is valid for the span `expires`, by
        default without end. Raises `Invalid`, and `Conflict` where the name is taken.
        """
        return self._backend.wait_for(self.acreate(name, scopes, queues=queues, expires=expires))

    async def acreate(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        queues: Sequence[str] | None = None,
        expires: Span | None = None,
    ) -> CreatedKey:
        draft = KeyDraft(
            name=name,
            scopes=tuple(scopes),
            queues=None if queues is None else tuple(queues),
            expires=UNSET if expires is None else in_seconds(expires),
        )
        return await self._backend.call(KEY_CREATE, CreateKey(draft))

    def list(self) -> Sequence[KeyAnswer]:
        """Keys by name, without the keys themselves."""
        return self._backend.wait_for(self.alist())

    async def alist(self) -> Sequence[KeyAnswer]:
        return (await self._backend.call(KEY_LIST, NoParams())).keys

    def revoke(self, name: str) -> None:
        """Every process rejects the key within seconds. Raises `NotFound`."""
        self._backend.wait_for(self.arevoke(name))

    async def arevoke(self, name: str) -> None:
        await self._backend.call(KEY_REVOKE, KeyByName(name))

    def sessions(self) -> Sequence[SessionAnswer]:
        """Sessions of the dashboard, last used first; `revoke` ends one by its name."""
        return self._backend.wait_for(self.asessions())

    async def asessions(self) -> Sequence[SessionAnswer]:
        return (await self._backend.call(SESSION_LIST, NoParams())).sessions
