"""An hour for daily rules of tests that have the real clock."""

from datetime import UTC, datetime
from typing import Final

FAR_HOUR: Final = 12 if datetime.now(UTC).hour < 7 else 3
"""In Berlin, and the one after it too: an hour or more away. Near an occurrence two are planned."""
