"""Messages that were put aside."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from onbeat.model.ids import LetterId
from onbeat.model.letter import DeadLetter
from onbeat.stores.memory.tables import Tables


def bury(tables: Tables, letters: Sequence[DeadLetter]) -> None:
    for letter in letters:
        tables.letters.setdefault(letter.id, letter)


def newest(
    tables: Tables, before: LetterId | None, limit: int, source: str | None
) -> Sequence[DeadLetter]:
    ids = sorted((id for id in tables.letters if before is None or id < before), reverse=True)
    letters: Iterator[DeadLetter] = (tables.letters[id] for id in ids)
    return tuple(islice((letter for letter in letters if source in (None, letter.source)), limit))


def by_id(tables: Tables, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
    return tuple(tables.letters[id] for id in set(ids) if id in tables.letters)


def exhume(tables: Tables, ids: Collection[LetterId]) -> int:
    return sum(tables.letters.pop(id, None) is not None for id in set(ids))
