"""The levels of single loggers, by name."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeVar, cast

from onbeat.model.limits import LOGGERS_MAX
from onbeat.settings.url_schemes import pairs_of

Level = TypeVar("Level", bound=StrEnum)

LOGGER: Final = re.compile(r"[^\s=,]{1,200}")
FORM: Final = "names of loggers with a level each, such as onbeat.engine=debug"


def levels_by_logger(read: Callable[[object], Level]) -> Callable[[object], dict[str, Level]]:
    """A mapping, or text like `shop=debug urllib3=error`; `read` reads each level."""

    def read_all(value: object) -> dict[str, Level]:
        if not isinstance(value, dict | str):
            raise ValueError(FORM)  # noqa: TRY004  the error of every parser
        levels: dict[str, Level] = {}
        given = cast("dict[object, object] | str", value)
        for name, level in pairs_of(given.replace(",", " ") if isinstance(given, str) else given):
            levels[name_of_logger(name)] = read_level(name, level, read)
        if len(levels) > LOGGERS_MAX:
            raise ValueError(f"levels of at most {LOGGERS_MAX} loggers")
        return levels

    return read_all


def name_of_logger(name: str) -> str:
    if not LOGGER.fullmatch(name):
        raise ValueError(FORM)
    return name


def read_level(name: str, level: object, read: Callable[[object], Level]) -> Level:
    if level == "":
        raise ValueError(FORM)
    try:
        return read(level)
    except ValueError as error:
        raise ValueError(f"for {name} {error}") from None
