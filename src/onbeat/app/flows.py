"""`beat.flows`: jobs that were sent together, by the id of their flow."""

from onbeat.app.backend import Backend
from onbeat.model.limits import FLOWS_LISTED_DEFAULT, PAGE_LIMIT_DEFAULT
from onbeat.operations.tables.flows import FLOW_CANCEL, FLOW_LIST, FLOW_RETRY, FLOW_SHOW
from onbeat.wire.flows import FlowAnswer, FlowChange, FlowsAnswer
from onbeat.wire.jobs import ReasonBody
from onbeat.wire.requests import CancelFlow, FlowById, ListFlows, ShowFlow


class Flows:
    """Flows by id: the id of the job that sent the others, or of the request."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def show(
        self, id: str, *, limit: int = PAGE_LIMIT_DEFAULT, cursor: str | None = None
    ) -> FlowAnswer:
        """State, counts, and a page of jobs and edges. Raises `NotFound`."""
        return self._backend.wait_for(self.ashow(id, limit=limit, cursor=cursor))

    async def ashow(
        self, id: str, *, limit: int = PAGE_LIMIT_DEFAULT, cursor: str | None = None
    ) -> FlowAnswer:
        return await self._backend.call(FLOW_SHOW, ShowFlow(id=id, limit=limit, cursor=cursor))

    def list(self, *, limit: int = FLOWS_LISTED_DEFAULT, cursor: str | None = None) -> FlowsAnswer:
        """A page of flows, the newest first, with how far each is."""
        return self._backend.wait_for(self.alist(limit=limit, cursor=cursor))

    async def alist(
        self, *, limit: int = FLOWS_LISTED_DEFAULT, cursor: str | None = None
    ) -> FlowsAnswer:
        return await self._backend.call(FLOW_LIST, ListFlows(limit=limit, cursor=cursor))

    def cancel(self, id: str, reason: str | None = None) -> FlowChange:
        """Cancel all waiting jobs; ask the running ones to stop. Raises `NotFound`."""
        return self._backend.wait_for(self.acancel(id, reason))

    async def acancel(self, id: str, reason: str | None = None) -> FlowChange:
        return await self._backend.call(FLOW_CANCEL, CancelFlow(id, ReasonBody(reason=reason)))

    def retry(self, id: str) -> FlowChange:
        """Run what failed or was cancelled again, and what waits for it. Raises `NotFound`."""
        return self._backend.wait_for(self.aretry(id))

    async def aretry(self, id: str) -> FlowChange:
        return await self._backend.call(FLOW_RETRY, FlowById(id))
