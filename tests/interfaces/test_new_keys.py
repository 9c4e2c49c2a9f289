"""A key that was made just now, by whatever process."""

import pytest

from onbeat.api.keyring import Keyring
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
    await office.ask(KEY_CREATE, {"name": "free", "scopes": ["submit"], "queues": []})
    bound = {key.name: key.queues for key in await office.store.keys()}
    assert bound == {"work": ("q",), "admin": ("q",), "free": None}
