"""Options of callbacks, apart from their client, which is slow to load."""

from datetime import timedelta

import msgspec

from onbeat.rules.ip_policy import NOTHING_MORE, Allowed
from onbeat.rules.kinds import check_kinds
from onbeat.rules.urls import refusal_at_creation


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of callbacks: their time, the addresses that they may call, and their connections.

    `timeout` limits a whole attempt, from the name lookup to the last byte of the response, unless
    the job sets a limit itself. With `connections_max` 0 the worker limits how many are in flight.
    `ca_file` replaces the system's certificate authorities.
    """

    timeout: timedelta = timedelta(seconds=30)
    private_allowed: bool = True
    allowed: Allowed = NOTHING_MORE
    ca_file: str | None = None
    connections_max: int = 0

    def __post_init__(self) -> None:
        """Raises `Invalid` for an option of another kind."""
        check_kinds(self)

    def refusal_of(self, url: str) -> str | None:
        """Why a callback to `url` is not allowed, judging by the URL alone."""
        return refusal_at_creation(url, private_allowed=self.private_allowed, allowed=self.allowed)
