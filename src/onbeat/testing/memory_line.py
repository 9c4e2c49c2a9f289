"""The way to a broker within the process, which a test can cut."""

from onbeat.transports.memory_broker import MemoryBroker


class MemoryLine:
    """Takes `memory://NAME` away from everybody in this process, and brings it back.

    Nothing that waits is lost. Consumers lose what they hold: it waits again.
    """

    def __init__(self, url: str) -> None:
        self.server = MemoryBroker(url).server

    async def cut(self) -> None:
        self.server.stop()

    async def mend(self) -> None:
        self.server.start()
