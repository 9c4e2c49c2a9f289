"""The port to the sessions that processes have on a database server."""

from typing import Final, Protocol

from onbeat.model.session_look import SessionLook


class ServerSessions(Protocol):
    @property
    def name(self) -> str:
        """The name of this process's sessions; empty where they prove nothing about it.

        That is so where the server does not tell, and where something between ends connections
        of its own accord: a pooler, a proxy, a translation of addresses.
        """
        ...

    async def look(self) -> SessionLook:
        """Until one raises `Unavailable`, or until `close`, all looks are at one run of a server.

        Call it in one event loop.
        """
        ...

    def close(self) -> None:
        """Give back what looks needed. Call it in the loop of the looks."""
        ...


class NoSessions:
    """For stores without a server, and for servers that do not tell."""

    @property
    def name(self) -> str:
        return ""

    async def look(self) -> SessionLook:
        return SessionLook(frozenset(), watchers=0, ended=0, lost=0)

    def close(self) -> None:
        pass


NO_SESSIONS: Final = NoSessions()
