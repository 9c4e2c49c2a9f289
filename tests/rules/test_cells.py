"""Slots: where a record belongs, and how its id shows that."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.app.system import SystemRandomness
from onbeat.model.cells import CELLS_MAX, MAP_VERSION_MAX, SLOTS, Cell, CellMap
from onbeat.model.errors import Invalid
from onbeat.model.ids import ScheduleId
from onbeat.rules.cells import (
    GROUP,
    UNIQUE,
    check_map,
    own_slot,
    places_by_slot,
    slot_of_id,
    slot_of_key,
    slot_of_schedule,
    slots_of_jobs,
    stamped,
)
from onbeat.rules.derived_ids import instant_of
from onbeat.testing.build import a_job, an_id
from onbeat.wire.values import is_id

WHOLE = ((0, SLOTS - 1),)
SLOT = st.integers(0, SLOTS - 1)


def a_map(*slots: tuple[tuple[int, int], ...], version: int = 1) -> CellMap:
    cells = (Cell(f"c{at}", f"sqlite:///{at}", own) for at, own in enumerate(slots))
    return CellMap(version, tuple(cells))


def test_the_slot_of_a_key_never_changes() -> None:
    assert slot_of_key(UNIQUE, "order-42") == 561
    assert slot_of_key(UNIQUE, "größe ☃") == 288
    assert slot_of_key(GROUP, "default", "tenant-7") == 231
    code = "from onbeat.rules.cells import slot_of_key; print(slot_of_key('unique', 'order-42'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == "561"


def test_texts_of_a_key_are_kept_apart() -> None:
    assert slot_of_key(GROUP, "ab", "c") != slot_of_key(GROUP, "a", "bc")


def test_keys_spread_over_all_slots() -> None:
    counts = [0] * SLOTS
    for number in range(100 * SLOTS):
        counts[slot_of_key(UNIQUE, str(number))] += 1
    assert min(counts) > 50
    assert max(counts) < 160


@given(SLOT)
def test_an_id_has_the_slot_that_was_put_into_it(slot: int) -> None:
    (id,) = SystemRandomness().ids(1)
    other = stamped(id, slot)
    assert slot_of_id(other) == slot
    assert is_id(other)
    assert instant_of(other) == instant_of(id)
    assert stamped(other, slot) == other
    assert stamped(other, slot_of_id(id)) == id


@given(SLOT)
def test_ids_of_one_slot_stay_in_order(slot: int) -> None:
    ids = SystemRandomness().ids(2_000)
    changed = [stamped(id, slot) for id in ids]
    assert changed == sorted(set(changed))


def test_ids_that_are_made_together_have_one_slot() -> None:
    assert len({slot_of_id(id) for id in SystemRandomness().ids(1_000)}) == 1


def test_new_ids_have_any_slot() -> None:
    chance = SystemRandomness()
    slots: set[int] = set()
    for _ in range(100):
        chance.last = 0  # as at another millisecond
        slots.add(slot_of_id(chance.ids(1)[0]))
    assert len(slots) > 50


@pytest.mark.parametrize("text", ["", "job-1", "zz", "0190-zzzz", "01900000-0000-7zzz-8000"])
def test_what_is_no_id_has_a_slot_and_stays_as_it_is(text: str) -> None:
    assert slot_of_id(text) == 0
    assert stamped(text, 5) == text


def test_a_unique_key_comes_before_the_schedule_and_that_before_the_group() -> None:
    schedule = ScheduleId(stamped(an_id(), 77))
    assert own_slot(a_job()) is None
    grouped = a_job(group="g", queue="q")
    assert own_slot(grouped) == slot_of_key(GROUP, "q", "g")
    assert own_slot(a_job(group="g", queue="other")) != own_slot(grouped)
    assert own_slot(a_job(group="g", schedule_id=schedule)) == 77
    unique = a_job(group="g", schedule_id=schedule, unique="k")
    assert own_slot(unique) == slot_of_key(UNIQUE, "k")


def test_jobs_that_name_nothing_go_together() -> None:
    jobs = [a_job(), a_job(unique="k"), a_job()]
    assert slots_of_jobs(jobs, 9) == [9, slot_of_key(UNIQUE, "k"), 9]


def test_a_schedule_with_a_key_is_where_the_key_is() -> None:
    id = stamped(an_id(), 5)
    assert slot_of_schedule(id, None) == 5
    assert slot_of_schedule(id, "nightly") == slot_of_key("schedule", "nightly")


def test_each_slot_has_the_place_of_its_cell() -> None:
    places = places_by_slot(a_map(((0, 0), (2, 1023)), ((1, 1),)))
    assert places == [0, 1] + [0] * 1022


@pytest.mark.parametrize(
    ("map", "field", "text"),
    [
        (a_map(WHOLE, version=0), "version", "from 1 to"),
        (a_map(WHOLE, version=MAP_VERSION_MAX + 1), "version", "from 1 to"),
        (CellMap(1, ()), "cells", "1 to 64 cells"),
        (a_map(*[WHOLE] * (CELLS_MAX + 1)), "cells", "1 to 64 cells"),
        (a_map(((0, 1022),)), "cells", "1 slots are in no cell, the first is 1023"),
        (a_map(((1, 1023),)), "cells", "1 slots are in no cell, the first is 0"),
        (
            a_map(((0, 512),), ((512, 1023),)),
            "cells.c1.slots",
            "slot 512 is in the cells c0 and c1",
        ),
        (a_map(((0, 1024),)), "cells.c0.slots", "between 0 and 1023"),
        (a_map(((-1, 1023),)), "cells.c0.slots", "between 0 and 1023"),
        (a_map(((9, 8), (0, 1023))), "cells.c0.slots", "must go upwards"),
        (a_map(WHOLE, ()), "cells.c1.slots", "has no slots"),
        (
            CellMap(
                1, (Cell("a", "sqlite:///x", ((0, 1),)), Cell("b", "sqlite:///x", ((2, 1023),)))
            ),
            "cells.b.url",
            "a and b are the same store",
        ),
    ],
)
def test_a_map_that_finds_nothing_is_refused_by_its_field(
    map: CellMap, field: str, text: str
) -> None:
    with pytest.raises(Invalid, match=text) as raised:
        check_map(map)
    assert raised.value.field == field


def test_maps_at_their_bounds_are_taken() -> None:
    check_map(a_map(WHOLE, version=1))
    check_map(a_map(WHOLE, version=MAP_VERSION_MAX))
    width = SLOTS // CELLS_MAX
    ranges = [((at * width, at * width + width - 1),) for at in range(CELLS_MAX)]
    check_map(a_map(*ranges))


def test_a_slot_that_one_cell_names_twice_is_told_with_its_field() -> None:
    map = CellMap(1, (Cell("a", "sqlite:///a.db", ((0, 1023), (7, 7))),))
    with pytest.raises(Invalid, match=r"^cells\.a\.slots names slot 7 twice") as caught:
        places_by_slot(map)
    assert caught.value.field == "cells.a.slots"
