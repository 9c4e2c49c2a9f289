"""Deprecated names of the previous version: each works for one more version, with a warning."""

import warnings


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller's caller that `old` was renamed to `new`."""
    message = f"{old} is called {new} now; the next version drops the old name"
    warnings.warn(message, FutureWarning, stacklevel=3)
