"""K2, K5: requests made of the OpenAPI document, to every address with a key of each scope.

No answer is an error of ours, each is one that the document names, and a key does what its scope
allows and nothing else, whatever is asked for.
"""

import asyncio
from typing import Any

import pytest
from schemathesis.core.transport import Response

from interfaces.conformance import CONFORMANCE, SCHEMA, Service, at_every_address, prepared
from interfaces.test_scopes import ALLOWED, CONFIGURED, KEYS
from onbeat.model.principal import Scope
from onbeat.operations.table import OPERATIONS

SCOPES = {(one.method, one.path): one.scope for one in OPERATIONS}
STRANGERS = {"no key": {}, "another key": {"x-api-key": "a-key-that-nobody-has-given"}}
SENDERS = (Scope.READ, Scope.SUBMIT, Scope.WORK, Scope.OPERATE, Scope.ADMIN)
ENDLESS = "/api/stream"
EXAMPLES = 4  # of each address; each is sent with seven keys


def test_the_document_has_the_addresses_of_all_operations() -> None:
    paths = SCHEMA.raw_schema["paths"]
    assert all(method.lower() in paths.get(path, {}) for method, path in SCOPES)


@pytest.mark.xdist_group("scoped requests")
@at_every_address(EXAMPLES)
def test_every_address_answers_each_key_as_the_document_says(case: Any) -> None:
    asyncio.run(send_with_each_key(case))


async def send_with_each_key(case: Any) -> None:
    """Strangers first; those that may delete come last."""
    service = Service(CONFIGURED)
    request = await prepared(service, case, x_api_key=KEYS[Scope.ADMIN])
    needed = SCOPES.get((case.method, case.path))
    senders: dict[str, dict[str, str]] = STRANGERS | {
        scope.value: {"x-api-key": KEYS[scope]} for scope in SENDERS
    }
    for who, headers in senders.items():
        if case.path == ENDLESS:
            service = Service(CONFIGURED)  # its stream has ended for the sender before
        answer = await service.answer(request, **headers)
        case.validate_response(answer, checks=CONFORMANCE)
        if needed is not None and not is_elsewhere(answer):
            assert refusal(answer.status_code) == expected(who, needed), (who, answer.content)


def is_elsewhere(answer: Response) -> bool:
    """Whether a name with a slash has made another address of it, at which there is nothing."""
    return answer.status_code == 404 and b"There is nothing at " in answer.content


def refusal(status: int) -> int | None:
    return status if status in (401, 403) else None


def expected(who: str, needed: Scope) -> int | None:
    if who in STRANGERS:
        return 401
    return None if needed in ALLOWED[Scope(who)] else 403
