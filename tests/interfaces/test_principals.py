"""Each request acts for the principal of its key."""

from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.bulk import BulkSlots
from onbeat.api.rpc import routes_of
from onbeat.api.security import principal_of
from onbeat.model.principal import ALL_SCOPES, ANONYMOUS, BROKER, LOCAL, Scope
from onbeat.operations.context import OperationContext
from operations.harness import OperationsHarness

KEYS = ("a-key-of-some-length-1", "a-key-of-some-length-2")


async def show_principal(context: OperationContext, _call: Any) -> Any:
    return context.principal.name


async def show_request(request: Any) -> Any:
    return JSONResponse(principal_of(request).name)


def client(*keys: str) -> RestClient:
    context, options = OperationsHarness().context, ApiOptions(keys=keys)
    shown = Route("/api/principal", show_request)
    routes = [shown, *routes_of({"who": show_principal}, context, options, BulkSlots())]
    return RestClient(build_api(context, options, pages=lambda _access: routes))


async def over_rpc(rest: RestClient, **headers: str) -> str:
    text = b'{"jsonrpc": "2.0", "method": "who", "id": 1}'
    answer = await rest.send("POST", "/rpc", text, content_type="application/json", **headers)
    return answer.json["result"]


async def test_without_keys_everybody_is_anonymous_and_may_do_everything() -> None:
    rest = client()
    assert (await rest.get("/api/principal")).json == "anonymous"
    assert await over_rpc(rest) == "anonymous"
    assert ANONYMOUS.scopes == ALL_SCOPES == frozenset(Scope)


@pytest.mark.parametrize("number", [1, 2])
async def test_a_plain_key_is_named_by_its_place(number: int) -> None:
    rest = client(*KEYS)
    key = KEYS[number - 1]
    assert (await rest.get("/api/principal", x_api_key=key)).json == f"key-{number}"
    assert await over_rpc(rest, x_api_key=key) == f"key-{number}"


async def test_who_has_the_store_is_local() -> None:
    assert OperationsHarness().context.principal is LOCAL
    assert LOCAL.scopes == ALL_SCOPES


async def test_what_comes_over_a_broker_may_not_operate() -> None:
    assert BROKER.scopes == {Scope.SUBMIT, Scope.WORK}
    assert OperationsHarness().context.acting_for(BROKER).principal.name == "broker"
