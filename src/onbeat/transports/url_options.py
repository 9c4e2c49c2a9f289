"""Parses the options in a broker's URL."""

import re
from collections.abc import Iterable
from typing import Final, NoReturn
from urllib.parse import parse_qsl

from onbeat.model.broker_options import BrokerOption, BrokerUrl
from onbeat.model.errors import Misconfigured

WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class UrlOptions:
    """The options of a URL. Each is taken by name; `refuse_unknown` refuses the remaining ones.

    Defaults and bounds are those of the broker's list. All methods raise `Misconfigured` with the
    option's name, and never the value of a secret.
    """

    def __init__(self, text: str, url: BrokerUrl) -> None:
        pairs = parse_qsl(text, keep_blank_values=True)
        self.url = url
        self.left = dict(pairs)
        self.known: list[str] = []
        if len(self.left) < len(pairs):
            self.refuse("an option is given twice; keep one")

    def take(self, name: str) -> str | None:
        """The text of an option of the list, or None."""
        self.known.append(self.option(name).name)
        return self.left.pop(name, None)

    def option(self, name: str) -> BrokerOption:
        return self.url.option(name)

    def text(self, name: str) -> str:
        taken = self.take(name)
        return self.option(name).default if taken is None else taken

    def whole_number(self, name: str) -> int:
        text, option = self.text(name), self.option(name)
        if not (WHOLE.fullmatch(text) and option.low <= int(text) <= option.high):
            self.refuse(f"{name} is a whole number from {option.low} to {option.high}")
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
        raise Misconfigured(f"the URL of {self.url.broker}: {reason}", key="transport")
