"""Flows: jobs that wait for one another."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import flows
from onbeat.operations.tables.operation import Operation
from onbeat.wire.flows import FlowAnswer, FlowChange, FlowsAnswer
from onbeat.wire.requests import CancelFlow, FlowById, ListFlows, ShowFlow

FLOW_LIST: Final = Operation(
    name="flow.list",
    id="listFlows",
    summary="List flows, the newest first, with how far each is",
    function=flows.list_flows,
    request=ListFlows,
    answer=FlowsAnswer,
    method="GET",
    path="/api/flows",
    scope=Scope.READ,
)

FLOW_SHOW: Final = Operation(
    name="flow.show",
    id="getFlow",
    summary="Show a flow: its state, counts, jobs and edges",
    function=flows.show,
    request=ShowFlow,
    answer=FlowAnswer,
    method="GET",
    path="/api/flows/{id}",
    scope=Scope.READ,
)

FLOW_CANCEL: Final = Operation(
    name="flow.cancel",
    id="cancelFlow",
    summary="Cancel the waiting jobs of a flow, and ask the running ones to stop",
    function=flows.cancel,
    request=CancelFlow,
    answer=FlowChange,
    method="POST",
    path="/api/flows/{id}/cancel",
    body="why",
    body_required=False,
    scope=Scope.OPERATE,
)

FLOW_RETRY: Final = Operation(
    name="flow.retry",
    id="retryFlow",
    summary="Let the failed and cancelled jobs of a flow wait again",
    function=flows.retry,
    request=FlowById,
    answer=FlowChange,
    method="POST",
    path="/api/flows/{id}/retry",
    scope=Scope.OPERATE,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    FLOW_LIST,
    FLOW_SHOW,
    FLOW_CANCEL,
    FLOW_RETRY,
)
