"""`beat.secrets`: encryption at rest."""

from typing import Final, NamedTuple

from onbeat.app.facade_host import FacadeHost
from onbeat.operations.table import SECRETS_ROTATE
from onbeat.wire.secrets import Reencrypt, ReencryptBody

ROTATIONS_MAX: Final = 5
"""Rounds of a rotation: jobs and schedules change meanwhile, and each round finds fewer."""


class Rotated(NamedTuple):
    """The result of a rotation.

    `scanned` schedules and jobs are stored, `changed` of them were re-encrypted, `unreadable` ones
    need a key that is not configured.
    """

    scanned: int
    changed: int
    unreadable: int


class Secrets:
    """Encryption at rest."""

    def __init__(self, host: FacadeHost) -> None:
        self.host = host

    def rotate(self) -> Rotated:
        """Re-encrypt all stored data with the first key.

        Jobs run meanwhile, and the rotation may be interrupted and repeated: each batch is atomic.
        Raises `Invalid` where no key is configured.
        """
        return self.host.wait_for(self.arotate())

    async def arotate(self) -> Rotated:
        """Re-encrypt all stored data with the first key; see `rotate`."""
        rounds = [await self.one_round()]
        while rounds[-1].changed and len(rounds) < ROTATIONS_MAX:
            rounds.append(await self.one_round())
        return rounds[-1]._replace(changed=sum(round.changed for round in rounds))

    async def one_round(self) -> Rotated:
        total, cursor = Rotated(0, 0, 0), None
        while True:
            request = Reencrypt(ReencryptBody(cursor=cursor))
            part = await self.host.backend.call(SECRETS_ROTATE, request)
            total = Rotated(
                total.scanned + part.scanned,
                total.changed + part.changed,
                total.unreadable + part.unreadable,
            )
            cursor = part.cursor
            if cursor is None:
                return total
