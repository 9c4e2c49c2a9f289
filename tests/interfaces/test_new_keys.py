"""A key that was made just now, by whatever process."""

import pytest

from interfaces.rest_client import RestClient
from onbeat.api.asgi import build_api
from onbeat.api.keyring import Keyring
from onbeat.api.options import ApiOptions
from onbeat.model.errors import Invalid, Unauthorized
from onbeat.operations.tables.administration import KEY_CREATE
from onbeat.rules.access import SECRET_BYTES, new_key
from operations.harness import OperationsHarness


async def test_a_new_key_works_although_the_keys_were_read_just_before() -> None:
    office = OperationsHarness()
    keyring = Keyring(["configured-key-of-32-characters!"], office.context)
    with pytest.raises(Unauthorized):
        await keyring.principal(new_key(bytes(SECRET_BYTES)))
    made = await office.ask(KEY_CREATE, {"name": "fresh", "scopes": ["read"]})
    assert (await keyring.principal(made["key"])).name == "fresh"


async def test_queues_go_with_the_scope_work() -> None:
    office = OperationsHarness()
    with pytest.raises(Invalid, match="only a key with the scope work") as caught:
        await office.ask(KEY_CREATE, {"name": "a", "scopes": ["submit", "read"], "queues": ["q"]})
    assert caught.value.field == "queues"
    for name in ("work", "admin"):
        await office.ask(KEY_CREATE, {"name": name, "scopes": [name], "queues": ["q"]})
    await office.ask(KEY_CREATE, {"name": "free", "scopes": ["submit"], "queues": None})
    bound = {key.name: key.queues for key in await office.store.keys()}
    assert bound == {"work": ("q",), "admin": ("q",), "free": None}


@pytest.mark.parametrize("scope", ["work", "submit", "admin"])
async def test_a_key_for_no_queue_is_refused(scope: str) -> None:
    office = OperationsHarness()
    with pytest.raises(Invalid, match="name at least one queue, or leave them out") as caught:
        await office.ask(KEY_CREATE, {"name": "a", "scopes": [scope], "queues": []})
    assert caught.value.field == "queues"
    assert list(await office.store.keys()) == []


async def test_a_stored_key_never_has_the_name_of_a_configured_one() -> None:
    office = OperationsHarness()
    keys = ("ops:admin=the-key-of-operators", "an-unnamed-key-of-one")
    admin = {"x_api_key": "the-key-of-operators"}
    rest = RestClient(build_api(office.context, ApiOptions(keys=keys)))
    for name in ("ops", "key-2"):
        answer = await rest.post("/api/keys", {"name": name, "scopes": ["read"]}, **admin)
        assert (answer.status, answer.error["code"]) == (409, "conflict")
        assert f"a key of the settings (api.keys) is named {name!r}" in answer.error["message"]
    assert list(await office.store.keys()) == []
    made = await rest.post("/api/keys", {"name": "key-1", "scopes": ["read"]}, **admin)
    assert made.status == 201
