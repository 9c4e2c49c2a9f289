"""Rules that fit into a line or two."""

from datetime import UTC, datetime, timedelta

import pytest

from onbeat.model.errors import Forbidden, Invalid
from onbeat.model.principal import Principal, Scope
from onbeat.rules.access import check_queue, check_scope
from onbeat.rules.batches import split_by_weight
from onbeat.rules.calendar import FIRST, LAST, shifted
from onbeat.rules.derived_ids import instant_of
from onbeat.rules.encryption import read_key
from onbeat.testing.build import HOUR, NOW


def test_an_instant_is_shifted_within_the_range_of_datetime() -> None:
    assert shifted(NOW, HOUR) == NOW + HOUR
    assert shifted(NOW, timedelta.max) == LAST
    assert shifted(NOW, timedelta.min) == FIRST


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([], []),
        ([1, 1, 1], [[1, 1], [1]]),
        ([3, 3, 3], [[3], [3], [3]]),
        ([9, 1, 1], [[9], [1, 1]]),
    ],
)
def test_batches_are_bounded_by_number_and_weight(
    weights: list[int], expected: list[list[int]]
) -> None:
    made = split_by_weight(weights, lambda weight: weight, 2, 5)
    assert [list(batch) for batch in made] == expected


@pytest.mark.parametrize(
    "id",
    [
        "",
        "0190a0b0-0000-7000-8000-00000000000",
        "0190a0b0-0000-4000-8000-000000000001",
        "0190a0b0-0000-7000-c000-000000000001",
        "0190a0bg-0000-7000-8000-000000000001",
        "ffffffff-ffff-7000-8000-000000000001",
    ],
)
def test_other_ids_have_no_instant(id: str) -> None:
    assert instant_of(id) is None


def test_an_id_has_the_instant_at_which_it_was_made() -> None:
    made = datetime(2024, 7, 11, 13, 22, 59, 328000, tzinfo=UTC)
    assert instant_of("0190a1f6-1c80-7000-8000-000000000001") == made


@pytest.mark.parametrize("text", ["", "k", "k:", "k:" + "A" * 43 + "=x", "k:" + "A" * 42, "k:!"])
def test_a_malformed_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(Invalid, match="is ID:KEY"):
        read_key(text)


def test_a_principal_works_on_its_queues_within_its_scopes() -> None:
    reader = Principal(name="r", scopes=frozenset({Scope.READ}), queues=("mail",))
    check_scope(reader, Scope.READ)
    check_queue(reader, "mail")
    with pytest.raises(Forbidden, match="`submit`; the key 'r' has read"):
        check_scope(reader, Scope.SUBMIT)
    with pytest.raises(Forbidden, match="the queue 'bulk'"):
        check_queue(reader, "bulk")
