"""Texts of keys: made, hashed, configured, and found again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.access import ApiKey
from onbeat.model.errors import Invalid
from onbeat.model.principal import Scope
from onbeat.rules.access import (
    SECRET_BYTES,
    clear_key,
    digest_of,
    is_mistyped,
    matching,
    new_key,
    read_configured_keys,
    split_keys,
)

secrets = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)


@given(secrets)
def test_a_new_key_is_one_word_with_a_checksum(secret: bytes) -> None:
    key = new_key(secret)
    assert len(key) == 53
    assert key.startswith("onb_")
    assert key[4:].isalnum()
    assert not is_mistyped(key)


@given(secrets, secrets)
def test_two_secrets_make_two_keys(one: bytes, other: bytes) -> None:
    assert one == other or new_key(one) != new_key(other)


@given(secrets, st.integers(4, 52), st.sampled_from("0aZ9"))
def test_a_typing_error_shows(secret: bytes, place: int, character: str) -> None:
    key = new_key(secret)
    changed = key[:place] + character + key[place + 1 :]
    assert changed == key or is_mistyped(changed)


@given(st.text(max_size=60))
def test_other_texts_are_not_judged_by_a_checksum(text: str) -> None:
    assert not is_mistyped(text) or text.startswith("onb_")


def test_keys_are_read_in_each_form() -> None:
    hashed = digest_of("a-key-of-some-length")
    texts = (
        "plain-key==",
        f"sha256:{hashed.upper()}",
        "grafana:read=read-key",
        "exporter:work+submit:exports,mail=work-key@2027-01-01",
        f"ops:operate=sha256:{hashed}@2027-01-01T12:30Z",
    )
    admin = (Scope.ADMIN,)
    assert read_configured_keys(texts) == (
        ApiKey(name="key-1", digest=digest_of("plain-key=="), scopes=admin),
        ApiKey(name="key-2", digest=hashed, scopes=admin),
        ApiKey(name="grafana", digest=digest_of("read-key"), scopes=(Scope.READ,)),
        ApiKey(
            name="exporter",
            digest=digest_of("work-key"),
            scopes=(Scope.SUBMIT, Scope.WORK),
            queues=("exports", "mail"),
            expires_at=datetime(2027, 1, 1, tzinfo=UTC),
        ),
        ApiKey(
            name="ops",
            digest=hashed,
            scopes=(Scope.OPERATE,),
            expires_at=datetime(2027, 1, 1, 12, 30, tzinfo=UTC),
        ),
    )
    clear = ["plain-key==", None, "read-key", "work-key", None]
    assert [clear_key(text) for text in texts] == clear


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (["a:reed=k"], "'a' has an unknown scope; use one of read, submit"),
        (["a:read=k", "a:work=l"], "two keys are named 'a'"),
        (["a:work:=k"], "the queues of 'a': name at least one queue, or leave them out for all"),
        (["a:work:,=k"], "the queues of 'a': name at least one queue, or leave them out for all"),
        (["a:submit:q=k"], "the queues of 'a': only a key with the scope work"),
        (["a:read=k@2027-02-30"], "2027-02-30 is not a date"),
    ],
)
def test_a_key_that_cannot_be_is_named(texts: list[str], word: str) -> None:
    with pytest.raises(Invalid, match=word):
        read_configured_keys(texts)


def test_queues_between_commas_stay_with_their_key() -> None:
    parts = ["plain", "a:work:x", "y", "z=key", "b:read=other"]
    assert split_keys(parts) == ("plain", "a:work:x,y,z=key", "b:read=other")


def test_only_the_key_itself_matches() -> None:
    (key,) = read_configured_keys(["a:read=the-key"])
    assert matching([key], "the-key") is key
    for wrong in ("", "the-ke", "the-key ", "The-key", key.digest, f"sha256:{key.digest}"):
        assert matching([key], wrong) is None
