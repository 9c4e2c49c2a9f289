"""Cells: which slot a record belongs to, and how its id shows that.

A hash slot, here a slot, is a number of 10 bits: the first ones of the BLAKE2b digest of a key, or
those in an id. A UUIDv7 has them as the last 10 of its 12 bits `rand_a`, before the bits that
count: so ids that one process makes in one millisecond have one slot, and stay in order where a
slot replaces theirs.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from onbeat.model.cells import CELLS_MAX, MAP_VERSION_MAX, SLOTS, CellMap
from onbeat.model.errors import Invalid
from onbeat.model.job import JobSpec

UNIQUE: Final = "unique"
GROUP: Final = "group"
SCHEDULE: Final = "schedule"
REQUEST: Final = "request"
EVENT: Final = "event"

SLOT_DIGITS: Final = slice(15, 18)
"""Of an id in canonical form: the digits of `rand_a`."""
MASK: Final = SLOTS - 1


def slot_of_key(kind: str, *texts: str) -> int:
    """The slot of a key of this kind; the same in every version and every process."""
    length_first = "".join(f"{len(text)}:{text}" for text in (kind, *texts))
    digest = blake2b(length_first.encode("utf-8", "surrogatepass"), digest_size=2).digest()
    return int.from_bytes(digest) >> 6


def slot_of_digest(digest: bytes) -> int:
    """The slot of a request under this idempotency key."""
    return slot_of_key(REQUEST, digest.hex())


def slot_of_id(id: str) -> int:
    """The slot in an id. A text that is no UUID has slot 0, as no record has such an id."""
    try:
        return int(id[SLOT_DIGITS], 16) & MASK
    except ValueError:
        return 0


def stamped(id: str, slot: int) -> str:
    """The id with this slot in it; one that has it already stays as it is.

    So does a text that is no UUID.
    """
    if len(id) != len("01900000-0000-7000-8000-000000000000"):
        return id
    kept = int(id[SLOT_DIGITS], 16) & ~MASK
    return f"{id[:15]}{kept | slot:03x}{id[18:]}"


def slot_of_schedule(id: str, key: str | None) -> int:
    """A schedule with a key belongs where the key does, so that the key is given once."""
    return slot_of_id(id) if key is None else slot_of_key(SCHEDULE, key)


def own_slot(job: JobSpec) -> int | None:
    """Where a job belongs by what it names; None where it may be anywhere.

    Its unique key comes first, as two cells would let it in twice; then its schedule, with whose
    other jobs it may overlap; then its group, whose limits hold in a cell.
    """
    if job.unique is not None:
        return slot_of_key(UNIQUE, job.unique)
    if job.schedule_id is not None:
        return slot_of_id(job.schedule_id)
    if job.group is not None:
        return slot_of_key(GROUP, job.queue, job.group)
    return None


def slots_of_jobs(jobs: Sequence[JobSpec], chance: int) -> list[int]:
    """The slot of each job of a request; those that name nothing go to `chance`, together."""
    return [chance if (slot := own_slot(job)) is None else slot for job in jobs]


def places_by_slot(map: CellMap) -> list[int]:
    """The place of the cell of each slot. Raises `Invalid` for a map with a gap or an overlap."""
    places: list[int | None] = [None] * SLOTS
    for place, cell in enumerate(map.cells):
        for slot in slots_in(cell.slots, cell.name):
            taken = places[slot]
            if taken == place:
                field = f"cells.{cell.name}.slots"
                raise Invalid(f"{field} names slot {slot} twice; name it once", field)
            if taken is not None:
                raise Invalid(
                    f"slot {slot} is in the cells {map.cells[taken].name} and {cell.name}; "
                    "let one of them have it",
                    f"cells.{cell.name}.slots",
                )
            places[slot] = place
    missing = [slot for slot, place in enumerate(places) if place is None]
    if missing:
        raise Invalid(
            f"{len(missing)} slots are in no cell, the first is {missing[0]}; the cells together "
            f"have 0-{SLOTS - 1}",
            "cells",
        )
    return [place for place in places if place is not None]


def slots_in(ranges: Iterable[tuple[int, int]], name: str) -> Iterable[int]:
    for first, last in ranges:
        if not 0 <= first <= last < SLOTS:
            raise Invalid(
                f"slots {first}-{last} must go upwards between 0 and {SLOTS - 1}",
                f"cells.{name}.slots",
            )
        yield from range(first, last + 1)


def check_map(map: CellMap) -> None:
    """Raises `Invalid`, which names the field, for a map by which nothing can be found."""
    if not 1 <= map.version <= MAP_VERSION_MAX:
        raise Invalid(
            f"version must be from 1 to {MAP_VERSION_MAX}, and higher than that of the map before",
            "version",
        )
    if not 1 <= len(map.cells) <= CELLS_MAX:
        raise Invalid(f"cells must name 1 to {CELLS_MAX} cells", "cells")
    urls: dict[str, str] = {}
    for cell in map.cells:
        if cell.url in urls:
            raise Invalid(
                f"the cells {urls[cell.url]} and {cell.name} are the same store; name another",
                f"cells.{cell.name}.url",
            )
        urls[cell.url] = cell.name
        if not cell.slots:
            raise Invalid(
                f"the cell {cell.name} has no slots; give it some, or leave it out",
                f"cells.{cell.name}.slots",
            )
    places_by_slot(map)
