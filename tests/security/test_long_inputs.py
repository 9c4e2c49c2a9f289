"""K7, K8: a long text in each place of a request to every address is refused, or read."""

import random

import pytest

from fuzz.requests import PLACES, Request, described, methods, request
from interfaces.conformance import Service

KEY = "key-of-at-least-20-characters"


def long_requests(where: str) -> list[Request]:
    """One to each operation of the document and each method of JSON-RPC."""
    chance = random.Random(where)
    headers = {"Authorization": f"Bearer {KEY}", "Host": "testserver"}
    return [request(chance, one, headers, where) for one in (*described(), *methods())]


@pytest.mark.parametrize("where", PLACES)
async def test_no_address_takes_a_long_text_for_a_fault_of_its_own(where: str) -> None:
    service = Service((KEY,))
    answers = []
    for sent in long_requests(where):
        headers = {name.lower(): text for name, text in sent.headers.items()}
        answer = await service.rest.send_parts(sent.method, sent.path, [sent.body or b""], headers)
        assert answer.status < 500, (str(sent), answer.body[:300])
        answers.append(answer.status)
    assert len(answers) > 100
    assert any(status >= 400 for status in answers)
