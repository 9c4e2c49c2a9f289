import pytest

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.transports.kafka.messages import message_of


def test_the_key_is_the_envelopes_or_its_id() -> None:
    assert message_of(Envelope(body=b"", id="7"), 1_000).key == b"7"
    assert message_of(Envelope(body=b"", id="7", key="customer"), 1_000).key == b"customer"
    assert message_of(Envelope(body=b"", id=""), 1_000).key is None


def test_the_limit_counts_all_that_goes_with_a_body() -> None:
    envelope = Envelope(body=b"x" * 500, id="7", headers={"name": "value"})
    size = message_of(envelope, 1_000).size()
    assert message_of(envelope, size).body == envelope.body
    with pytest.raises(TooLarge, match=f"message 7 has {size} bytes"):
        message_of(envelope, size - 1)
