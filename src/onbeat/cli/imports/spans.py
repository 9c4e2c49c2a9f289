"""Spans of time in the forms of sources."""

import re
from datetime import timedelta
from typing import Final

GO_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000_001}
GO_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|us|m|s)")


def go_span(text: str) -> timedelta | None:
    """A span as Go writes it, `1h30m`, in whole seconds of at least one; None if it is none."""
    parts = GO_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    seconds = sum(float(number) * GO_UNITS[unit] for number, unit in parts)
    return timedelta(seconds=max(1, int(seconds))) if seconds < 10**9 else None
