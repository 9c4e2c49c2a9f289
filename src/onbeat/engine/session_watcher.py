"""Watches the sessions of all processes on the server, to learn at once when one has ended."""

from collections.abc import Callable, Collection

from onbeat.ports.clock import Clock
from onbeat.ports.sessions import ServerSessions
from onbeat.rules.server_sessions import UNSEEN, after_look, pause_after_look


class SessionWatcher:
    """`on_end` is called when a round of the rescuer is due because a process has ended."""

    def __init__(self, sessions: ServerSessions, clock: Clock, on_end: Callable[[], None]) -> None:
        self.sessions = sessions
        self.clock = clock
        self.on_end = on_end
        self.watch = UNSEEN

    @property
    def ended(self) -> Collection[str]:
        """The names of the sessions of processes that have ended."""
        return self.watch.ended.keys()

    async def step(self) -> float:
        """One look; any failure begins the watch anew."""
        before = self.watch
        self.watch = UNSEEN
        look = await self.sessions.look()
        self.watch = after_look(before, look, self.clock.monotonic())
        if self.watch.ended.keys() - before.ended.keys():
            self.on_end()
        return pause_after_look(self.watch)

    def close(self) -> None:
        self.sessions.close()
