"""Where a request carries its idempotency key."""

import msgspec
import pytest

from onbeat.model.errors import Malformed
from onbeat.wire.idempotency import read_header, read_member

NAME = "Idempotency-Key"


def test_a_key_is_read_from_a_header_or_a_member() -> None:
    assert read_header(NAME, []) is None
    assert read_header(NAME, ["order-7"]) == "order-7"
    assert read_member(None) is None
    assert read_member(msgspec.Raw(b'"order-7"')) == "order-7"


@pytest.mark.parametrize("values", [["a", "b"], [""], ["with space"], ["ü"]])
def test_another_header_is_refused(values: list[str]) -> None:
    with pytest.raises(Malformed, match=NAME) as refused:
        read_header(NAME, values)
    assert refused.value.field == NAME


@pytest.mark.parametrize("text", [b"7", b"null", b'["a"]', b'""'])
def test_another_member_is_refused(text: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        read_member(msgspec.Raw(text))
    assert refused.value.field == "key"
