"""What a broker's URL says after its question mark."""

from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import parse_qsl

from onbeat.model.errors import Misconfigured


class Query:
    """The options of a URL, each taken by its name; at the `end`, what nobody took is refused.

    Everything here raises `Misconfigured` and names the option, never the value of a secret.
    """

    def __init__(self, text: str, broker: str) -> None:
        pairs = parse_qsl(text, keep_blank_values=True)
        self.broker = broker
        self.left = dict(pairs)
        self.known: list[str] = []
        if len(self.left) < len(pairs):
            self.refuse("an option stands there twice; keep one of them")

    def taken(self, name: str) -> str | None:
        self.known.append(name)
        return self.left.pop(name, None)

    def text(self, name: str, default: str) -> str:
        taken = self.taken(name)
        return default if taken is None else taken

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            self.refuse(f"{name} is a whole number from {low} to {high}")
        return int(text)

    def named(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these options that are there."""
        found = ((name, self.taken(name)) for name in names)
        return {name: value for name, value in found if value is not None}

    def end(self) -> None:
        """Refuses options that nobody knows."""
        if self.left:
            unknown = ", ".join(sorted(self.left))
            self.refuse(f"it knows no option {unknown}; it knows {', '.join(sorted(self.known))}")

    def refuse(self, reason: str) -> NoReturn:
        raise Misconfigured(f"the URL of {self.broker}: {reason}", key="transport")
