"""Dead letters."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId
from onbeat.stores.memory.tables import Tables


def add_dead_letters(tables: Tables, dead_letters: Sequence[DeadLetter]) -> None:
    for letter in dead_letters:
        tables.dead_letters.setdefault(letter.id, letter)


def newest_dead_letters(
    tables: Tables, before: DeadLetterId | None, limit: int, source: str | None
) -> Sequence[DeadLetter]:
    ids = sorted((id for id in tables.dead_letters if before is None or id < before), reverse=True)
    dead_letters: Iterator[DeadLetter] = (tables.dead_letters[id] for id in ids)
    return tuple(
        islice((letter for letter in dead_letters if source in (None, letter.source)), limit)
    )


def dead_letters_by_id(tables: Tables, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
    return tuple(tables.dead_letters[id] for id in set(ids) if id in tables.dead_letters)


def delete_dead_letters(tables: Tables, ids: Collection[DeadLetterId]) -> int:
    return sum(tables.dead_letters.pop(id, None) is not None for id in set(ids))
