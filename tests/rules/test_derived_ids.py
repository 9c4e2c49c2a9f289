"""Ids made from keys."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.rules.derived_ids import derived_id, instant_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
INSTANTS = st.integers(0, 2**43).map(lambda ms: EPOCH + timedelta(milliseconds=ms, microseconds=7))


@given(st.text(), INSTANTS)
def test_an_id_is_a_uuid_of_version_seven_with_its_time(key: str, at: datetime) -> None:
    id = uuid.UUID(derived_id(key, at))
    assert (id.version, id.variant) == (7, uuid.RFC_4122)
    whole = at - timedelta(microseconds=at.microsecond % 1_000)
    assert instant_of(str(id)) == whole


@given(st.text(), st.text(), INSTANTS)
def test_equal_keys_and_only_they_make_equal_ids(one: str, other: str, at: datetime) -> None:
    assert (derived_id(one, at) == derived_id(other, at)) is (one == other)


def test_an_id_stays_the_same_over_releases() -> None:
    assert derived_id("onbeat.submit\n7", AT) == "019cae6b-6600-7149-96f0-99d125725ecb"


def test_ids_sort_by_their_time() -> None:
    ids = [derived_id(str(n), AT + timedelta(milliseconds=n)) for n in range(100)]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "text",
    ["", "7", "0-0", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "x" * 36, "x" * 14 + "7" + "x" * 21],
)
def test_what_is_no_such_id_has_no_time(text: str) -> None:
    assert instant_of(text) is None
