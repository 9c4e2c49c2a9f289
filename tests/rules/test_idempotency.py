"""Which requests are the same one, and how their answers are kept."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedAnswer
from onbeat.model.limits import BULK_JOBS_MAX
from onbeat.rules.idempotency import (
    RequestKey,
    check_same,
    compress_answer,
    decompress_answer,
    digest_of,
    fingerprint_of,
)

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_an_id_of_a_request_follows_from_key_body_place_and_instant() -> None:
    key = RequestKey(b"digest", b"fingerprint", AT)
    others = [
        msgspec.structs.replace(key, digest=b"other"),
        msgspec.structs.replace(key, fingerprint=b"other"),
        msgspec.structs.replace(key, at=AT + timedelta(days=1)),
    ]
    assert key.id_at(0) == msgspec.structs.replace(key).id_at(0)
    assert len({key.id_at(0), key.id_at(1), *(other.id_at(0) for other in others)}) == 5


@pytest.mark.parametrize(
    "other",
    [
        ("b", "job.enqueue", "k"),
        ("a", "job.retry", "k"),
        ("a", "job.enqueue", "K"),
        ("a", "job.enqueuek", ""),
    ],
)
def test_principal_operation_and_key_make_a_digest(other: tuple[str, str, str]) -> None:
    assert digest_of("a", "job.enqueue", "k") == digest_of("a", "job.enqueue", "k")
    assert digest_of("a", "job.enqueue", "k") != digest_of(*other)


def test_neither_key_nor_body_stands_in_what_is_kept() -> None:
    kept = digest_of("a", "job.enqueue", "secret") + fingerprint_of("secret", b'"body"')
    assert b"secret" not in kept
    assert b"body" not in kept


def test_json_of_one_meaning_is_one_body() -> None:
    assert fingerprint_of("k", b'{"a": [1, 2], "b": {"c": 1, "d": 2}}') == fingerprint_of(
        "k", b'{"b":{"d":2,"c":1},"a":[1,2]}'
    )


@pytest.mark.parametrize("other", [b"[2,1]", b"[1,2,3]", b'["1",2]', b"[1,2.5]", b"{}"])
def test_another_body_has_another_fingerprint(other: bytes) -> None:
    assert fingerprint_of("k", b"[1,2]") != fingerprint_of("k", other)


def test_the_fingerprint_of_one_body_differs_from_key_to_key() -> None:
    assert fingerprint_of("one", b"[1]") != fingerprint_of("two", b"[1]")


def test_another_body_is_refused_with_both_fingerprints_and_the_time() -> None:
    first = KeyedAnswer(fingerprint=b"\xaa" * 16, made_at=AT, answer=b"{}")
    check_same(first, b"\xaa" * 16)
    with pytest.raises(Invalid) as refused:
        check_same(first, b"\xbb" * 16)
    assert refused.value.field == "Idempotency-Key"
    for part in ("Idempotency-Key", "2026-03-02T12:00:00Z", "aaaaaaaa", "bbbbbbbb", "body"):
        assert part in str(refused.value)


@given(st.text().map(lambda text: msgspec.json.encode({"text": text})))
def test_an_answer_comes_back_as_it_was(answer: bytes) -> None:
    assert decompress_answer(compress_answer(answer)) == answer


def test_the_ids_of_many_jobs_take_little_room() -> None:
    ids = [f"01900000-0000-7000-8000-{number:012x}" for number in range(BULK_JOBS_MAX)]
    answer = msgspec.json.encode({"ids": ids})
    assert len(compress_answer(answer)) < len(answer) / 8
    assert decompress_answer(compress_answer(answer)) == answer


def test_the_range_of_jobs_spans_all_ids() -> None:
    key = RequestKey(b"d", b"f", AT)
    request = key.request(lambda _: {"id": "x"}, ["b", "c", "a"])
    assert (request.first_job, request.last_job) == ("a", "c")
    assert key.request(lambda _: {}, []).first_job is None
    assert request.answer(None) == b'{"id":"x"}'
