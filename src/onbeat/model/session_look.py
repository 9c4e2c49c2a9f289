"""What a database server knows of the processes that are connected to it."""

import msgspec


class SessionLook(msgspec.Struct, frozen=True):
    """What a server said at one moment of the sessions of one store.

    `names` are the processes with at least one session; `watchers` is how many processes look. The
    counts only rise: `ended` of sessions that the server itself ended, `lost` of sessions whose
    client left without taking leave, as a killed process does.
    """

    names: frozenset[str]
    watchers: int
    ended: int
    lost: int
