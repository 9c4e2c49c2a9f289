"""What the provider decides about bills: shares, prices of units, attempts, the zone."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

from backoffice.money import SHARES


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Raises `ValueError`, which names the field, for a rule that cannot be.

    `share` is `proportional`, or `seed` for the figures of the old system. An invoice is attempted
    `attempts_cap` times; the wait after the first failure is `backoff`, and doubles. A charge that
    nobody decides is given up after `open_max`. Months begin in `zone`. The prices of a recorded
    byte and of a fax are those of the old system: next to nothing.
    """

    share: str = "proportional"
    attempts_cap: int = 4
    backoff: timedelta = timedelta(days=1)
    open_max: timedelta = timedelta(days=14)
    zone: str = "UTC"
    cents_per_recorded_byte: Fraction = Fraction("9.99e-16")
    cents_per_fax: Fraction = Fraction("9.99e-16")

    def __post_init__(self) -> None:
        if self.share not in SHARES:
            raise ValueError(f"share is {' or '.join(SHARES)}, not {self.share!r}")
        if self.attempts_cap < 1:
            raise ValueError(f"attempts_cap is 1 or more, not {self.attempts_cap}")
        if self.backoff < timedelta(0):
            raise ValueError(f"backoff cannot be below 0: {self.backoff}")
        if self.open_max <= timedelta(0):
            raise ValueError(f"open_max is above 0, not {self.open_max}")
        if min(self.cents_per_recorded_byte, self.cents_per_fax) < 0:
            raise ValueError("cents_per_recorded_byte and cents_per_fax cannot be below 0")
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError) as error:
            raise ValueError(f"zone is a name such as Europe/Paris, not {self.zone!r}") from error

    def share_of(self, included: int, used: int) -> Fraction:
        return SHARES[self.share](included, used)
