"""The program that declares schedules."""

import msgspec


class Owner(msgspec.Struct, frozen=True):
    """The owner of the schedules that one program declares; without a `name` it owns none.

    A name that the user has not given (`is_named` is False) says on which machine and in which file
    the program is. `release` orders versions of the program: an older one changes nothing.
    """

    name: str | None = None
    release: str | None = None
    is_named: bool = True


NOBODY = Owner()
