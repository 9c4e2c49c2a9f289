import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import TooLarge
from onbeat.ports.transport import Envelope
from onbeat.transports.sqs.letters import (
    LETTER_BYTES_MAX,
    Letter,
    batches,
    delivery_of,
    letter_of,
)


def message_of(letter: Letter):
    return {
        "Body": letter.body,
        "ReceiptHandle": "receipt",
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value}
            for name, value in letter.attributes.items()
        },
    }


@given(
    st.binary(max_size=50) | st.text(max_size=50).map(lambda text: text.encode()),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=12),
    st.text(min_size=1, max_size=5),
)
def test_any_envelope_comes_back_as_it_was(body, headers, id):
    letter = letter_of(Envelope(body=body, headers=headers, id=id))
    assert letter.body
    assert len(letter.attributes) <= 10
    assert all(letter.attributes.values())
    delivery = delivery_of(message_of(letter))
    assert (delivery.body, delivery.headers, delivery.id) == (body, headers, id)


def test_text_goes_out_as_text():
    letter = letter_of(Envelope(body='{"größe": "🎉"}'.encode(), id="1"))
    assert letter == Letter(body='{"größe": "🎉"}', attributes={"onbeat.id": "1"})


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\x00", b"bell \x07", "\ufffe".encode()])
def test_what_sqs_takes_for_no_text_goes_out_as_base64(body):
    letter = letter_of(Envelope(body=body, id="1"))
    assert base64.b64decode(letter.body) == body
    assert letter.attributes["onbeat.encoding"] == "base64"


def test_headers_are_attributes_where_they_can_be():
    headers = {"onbeat-token": "7", "onbeat-deadline": "2026-01-01T00:00:00Z"}
    letter = letter_of(Envelope(body=b"x", id="1", headers=headers))
    assert letter.attributes == {**headers, "onbeat.id": "1"}


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
def test_other_headers_go_together_as_json(headers):
    letter = letter_of(Envelope(body=b"x", id="1", headers=headers))
    assert list(letter.attributes) == ["onbeat.headers"]


def test_the_limit_counts_body_and_attributes():
    envelope = Envelope(body=b"x", id="1", headers={"name": "value"})
    spare = LETTER_BYTES_MAX - letter_of(envelope).size()
    fits = Envelope(body=b"x" * (1 + spare), id="1", headers={"name": "value"})
    assert letter_of(fits).size() == LETTER_BYTES_MAX
    with pytest.raises(TooLarge, match="262145 bytes"):
        letter_of(Envelope(body=fits.body + b"x", id="1", headers={"name": "value"}))


def test_base64_counts_as_it_is_sent():
    with pytest.raises(TooLarge):
        letter_of(Envelope(body=b"\x00" * 200_000, id="1"))


@given(st.lists(st.sampled_from([1, 10, 1_000, 100_000, 262_144]), max_size=40))
def test_batches_keep_to_the_limits_and_lose_nothing(sizes):
    letters = [Letter(body="x" * size, attributes={}) for size in sizes]
    made = list(batches(letters))
    assert [letter for batch in made for letter in batch] == letters
    for batch in made:
        assert 1 <= len(batch) <= 10
        assert sum(letter.size() for letter in batch) <= LETTER_BYTES_MAX


def test_messages_of_others_are_read_as_well_as_they_can_be():
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
def test_packed_headers_of_others_may_be_anything(packed):
    attributes = {"onbeat.headers": {"DataType": "String", "StringValue": packed}}
    delivery = delivery_of({"Body": "x", "MessageAttributes": attributes})
    assert delivery.headers == {}
