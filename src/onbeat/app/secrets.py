"""`beat.secrets`: encryption at rest."""

from typing import Final, NamedTuple, Protocol

import msgspec

from onbeat.app.backend import Backend
from onbeat.operations.tables.administration import SECRETS_ROTATE
from onbeat.wire.secrets import Reencrypt, ReencryptBody

ROUNDS_MAX: Final = 5
"""Rounds of a rotation: jobs and schedules change meanwhile, and each round finds fewer."""


class Rotated(NamedTuple):
    """The result of a rotation.

    `scanned` schedules and jobs are stored, `changed` of them were re-encrypted, `unreadable` ones
    need a key that is not configured.
    """

    scanned: int
    changed: int
    unreadable: int


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """The same with the id of the current key, as the command line shows it."""

    key: str = ""
    scanned: int = 0
    changed: int = 0
    unreadable: int = 0


class OnScanned(Protocol):
    """Called with what a round has scanned so far, after each batch."""

    def __call__(self, scanned: int, *, is_last: bool) -> None: ...


def ignore_progress(scanned: int, *, is_last: bool) -> None:
    """Nobody watches the rotation."""


class Secrets:
    """Encryption at rest."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def rotate(self) -> Rotated:
        """Re-encrypt all stored data with the first key.

        Jobs run meanwhile, and the rotation may be interrupted and repeated: each batch is atomic.
        Raises `Invalid` where no key is configured.
        """
        return self._backend.wait_for(self.arotate())

    async def arotate(self) -> Rotated:
        """Re-encrypt all stored data with the first key; see `rotate`."""
        total = await rotate_all(self._backend)
        return Rotated(total.scanned, total.changed, total.unreadable)


async def rotate_all(backend: Backend, on_scanned: OnScanned = ignore_progress) -> Rotation:
    """Re-encrypt everything, in rounds until one changes nothing. `changed` counts all rounds."""
    last = await rotate_once(backend, on_scanned)
    changed, rounds = last.changed, 1
    while last.changed and rounds < ROUNDS_MAX:
        last = await rotate_once(backend, on_scanned)
        changed, rounds = changed + last.changed, rounds + 1
    return msgspec.structs.replace(last, changed=changed)


async def rotate_once(backend: Backend, on_scanned: OnScanned) -> Rotation:
    """One round over all batches."""
    total, cursor = Rotation(), None
    while True:
        part = await backend.call(SECRETS_ROTATE, Reencrypt(ReencryptBody(cursor=cursor)))
        total = Rotation(
            key=part.key,
            scanned=total.scanned + part.scanned,
            changed=total.changed + part.changed,
            unreadable=total.unreadable + part.unreadable,
        )
        cursor = part.cursor
        on_scanned(total.scanned, is_last=cursor is None)
        if cursor is None:
            return total
