import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.transports.sqs.messages import (
    LETTER_BYTES_MAX,
    OutgoingMessage,
    batches_of_ten,
    delivery_of,
    message_of,
)


def sqs_message(message: OutgoingMessage) -> Any:
    return {
        "Body": message.body,
        "ReceiptHandle": "receipt",
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value}
            for name, value in message.attributes.items()
        },
    }


@given(
    st.binary(max_size=50) | st.text(max_size=50).map(lambda text: text.encode()),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=12),
    st.text(min_size=1, max_size=5),
)
def test_any_envelope_comes_back_as_it_was(body: Any, headers: Any, id: Any) -> None:
    message = message_of(Envelope(body=body, headers=headers, id=id))
    assert message.body
    assert len(message.attributes) <= 10
    assert all(message.attributes.values())
    delivery = delivery_of(sqs_message(message))
    assert (delivery.body, delivery.headers, delivery.id) == (body, headers, id)


def test_text_goes_out_as_text() -> None:
    message = message_of(Envelope(body='{"größe": "🎉"}'.encode(), id="1"))
    assert message == OutgoingMessage(body='{"größe": "🎉"}', attributes={"onbeat.id": "1"})


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\x00", b"bell \x07", "\ufffe".encode()])
def test_what_sqs_takes_for_no_text_goes_out_as_base64(body: bytes) -> None:
    message = message_of(Envelope(body=body, id="1"))
    assert base64.b64decode(message.body) == body
    assert message.attributes["onbeat.encoding"] == "base64"


def test_headers_are_attributes_where_they_can_be() -> None:
    headers = {"onbeat-token": "7", "onbeat-deadline": "2026-01-01T00:00:00Z"}
    message = message_of(Envelope(body=b"x", id="1", headers=headers))
    assert message.attributes == {**headers, "onbeat.id": "1"}


@pytest.mark.parametrize(
    "headers",
    [
        {f"h{number}": "x" for number in range(10)},
        {"empty": ""},
        {"control": "\x07"},
        {"a b": "x"},
        {"aws.reserved": "x"},
        {".a": "x"},
        {"a..b": "x"},
        {"n" * 257: "x"},
        {"onbeat.headers": "x"},
    ],
)
def test_other_headers_go_together_as_json(headers: dict[str, Any]) -> None:
    message = message_of(Envelope(body=b"x", id="1", headers=headers))
    assert list(message.attributes) == ["onbeat.headers"]


def test_the_limit_counts_body_and_attributes() -> None:
    envelope = Envelope(body=b"x", id="1", headers={"name": "value"})
    spare = LETTER_BYTES_MAX - message_of(envelope).size()
    fits = Envelope(body=b"x" * (1 + spare), id="1", headers={"name": "value"})
    assert message_of(fits).size() == LETTER_BYTES_MAX
    with pytest.raises(TooLarge, match="262145 bytes"):
        message_of(Envelope(body=fits.body + b"x", id="1", headers={"name": "value"}))


def test_base64_counts_as_it_is_sent() -> None:
    with pytest.raises(TooLarge):
        message_of(Envelope(body=b"\x00" * 200_000, id="1"))


@given(st.lists(st.sampled_from([1, 10, 1_000, 100_000, 262_144]), max_size=40))
def test_batches_keep_to_the_limits_and_lose_nothing(sizes: Any) -> None:
    messages = [OutgoingMessage(body="x" * size, attributes={}) for size in sizes]
    made = list(batches_of_ten(messages))
    assert [message for batch in made for message in batch] == messages
    for batch in made:
        assert 1 <= len(batch) <= 10
        assert sum(message.size() for message in batch) <= LETTER_BYTES_MAX


def test_messages_of_others_are_read_as_well_as_they_can_be() -> None:
    delivery = delivery_of(
        {
            "MessageId": "theirs",
            "ReceiptHandle": "receipt",
            "Body": "not base64!",
            "MessageAttributes": {
                "number": {"DataType": "Number", "StringValue": "7"},
                "bytes": {"DataType": "Binary", "BinaryValue": b"\x00"},
                "onbeat.encoding": {"DataType": "String", "StringValue": "base64"},
                "onbeat.headers": {"DataType": "String", "StringValue": "{not JSON"},
            },
        }
    )
    assert (delivery.body, delivery.headers) == (b"not base64!", {"number": "7"})
    assert (delivery.id, delivery.receipt) == ("theirs", "receipt")


@pytest.mark.parametrize("packed", ["[]", "1", '{"a": 1}', "null"])
def test_packed_headers_of_others_may_be_anything(packed: str) -> None:
    attributes: dict[str, Any] = {"onbeat.headers": {"DataType": "String", "StringValue": packed}}
    delivery = delivery_of({"Body": "x", "MessageAttributes": attributes})
    assert delivery.headers == {}
