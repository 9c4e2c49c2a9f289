"""An event loop in a thread."""

import asyncio
import threading

from onbeat.ports.side_loop import Main


class SideThread:
    """Implements `SideLoop`. The thread does not keep the process from ending."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None

    def start(self, main: Main) -> None:
        self.thread = threading.Thread(
            target=lambda: asyncio.run(main()), name="onbeat-renewer", daemon=True
        )
        self.thread.start()

    async def join(self) -> None:
        if self.thread is not None:
            await asyncio.to_thread(self.thread.join)
