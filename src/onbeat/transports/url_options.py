"""Parses the options in a broker's URL."""

import re
from collections.abc import Iterable
from typing import Final, NoReturn
from urllib.parse import parse_qsl

from onbeat.model.errors import Misconfigured

WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class UrlOptions:
    """The options of a URL. Each is taken by name; `refuse_unknown` refuses the remaining ones.

    All methods raise `Misconfigured` with the option's name, and never the value of a secret.
    """

    def __init__(self, text: str, broker: str) -> None:
        pairs = parse_qsl(text, keep_blank_values=True)
        self.broker = broker
        self.left = dict(pairs)
        self.known: list[str] = []
        if len(self.left) < len(pairs):
            self.refuse("an option is given twice; keep one")

    def take(self, name: str) -> str | None:
        self.known.append(name)
        return self.left.pop(name, None)

    def text(self, name: str, default: str) -> str:
        taken = self.take(name)
        return default if taken is None else taken

    def whole_number(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from `low` to `high`."""
        text = self.text(name, str(default))
        if not (WHOLE.fullmatch(text) and low <= int(text) <= high):
            self.refuse(f"{name} is a whole number from {low} to {high}")
        return int(text)

    def take_all(self, names: Iterable[str]) -> dict[str, str]:
        """The given options among these names."""
        result = ((name, self.take(name)) for name in names)
        return {name: value for name, value in result if value is not None}

    def refuse_unknown(self) -> None:
        """Refuses options that were not taken."""
        if self.left:
            unknown = ", ".join(sorted(self.left))
            allowed = ", ".join(sorted(self.known))
            self.refuse(f"unknown option {unknown}; allowed are {allowed}")

    def refuse(self, reason: str) -> NoReturn:
        raise Misconfigured(f"the URL of {self.broker}: {reason}", key="transport")
