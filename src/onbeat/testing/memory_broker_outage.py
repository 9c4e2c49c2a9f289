"""A link to an in-process broker, which a test can cut."""

from onbeat.transports.memory_broker import MemoryBroker


class MemoryBrokerLink:
    """Stops `memory://NAME` for this whole process, and starts it again.

    No waiting message is lost. Messages held by consumers wait again.
    """

    def __init__(self, url: str) -> None:
        self.server = MemoryBroker(url).server

    async def disconnect(self) -> None:
        self.server.stop()

    async def reconnect(self) -> None:
        self.server.start()
