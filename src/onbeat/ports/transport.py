"""What carries claimed jobs from dispatcher to worker."""

from collections.abc import Sequence
from typing import Protocol

from onbeat.model.job import Job


class Transport(Protocol):
    """A claimed job that gets lost on the way comes back when its worker is given up."""

    def room(self) -> int:
        """How many more jobs may be sent just now; full is an answer, not an error."""
        ...

    async def send(self, jobs: Sequence[Job]) -> None: ...

    async def receive(self) -> Sequence[Job]:
        """The next jobs, at least one; waits for them."""
        ...
