"""Maps the errors of server and driver to the store's, with a remedy."""

import asyncio
from typing import Final

from asyncmy import errors

from onbeat.model.errors import Conflict, Invalid, OnbeatError, Unavailable

# These ended the transaction, or one statement, in favour of another.
DEADLOCK: Final = 1213
LOCK_WAIT: Final = 1205
# MariaDB with strict snapshots: the row has changed since it was read.
CHANGED_SINCE: Final = 1020
REPEATED: Final = frozenset({DEADLOCK, LOCK_WAIT, CHANGED_SINCE})

# The connection is lost: closed by the server, killed, or without an answer.
LOST: Final = frozenset(
    {
        0,
        1053,
        1077,
        1079,
        1080,
        1152,
        1158,
        1159,
        1160,
        1161,
        1184,
        1927,
        2000,
        2002,
        2003,
        2006,
        2012,
        2013,
        2014,
        2026,
        2027,
        2055,
        4031,
    }
)
INTERRUPTED: Final = 1317
CLOSED: Final = ("Transport does not expose socket", "the handler is closed")
"""Messages of driver and event loop for a connection that the server has closed."""

DUPLICATE: Final = frozenset({1062, 1022, 1169, 1586})
# Values that do not fit a column: too long, out of range, not of its character set.
UNFIT: Final = frozenset({1153, 1264, 1366, 1406})

REMEDIES: Final = {
    1040: "it has no connection left; raise max_connections",
    1203: "the user has no connection left; raise max_user_connections",
    1044: "the user may not use the database; grant it",
    1045: "it refused the user; check the URL",
    1698: "it refused the user; check the URL",
    1049: "the database does not exist; create it",
    1142: "the user may not do this; grant it",
    1021: "the disk is full; free some space; writes resume automatically",
    1114: "the disk is full; free some space; writes resume automatically",
    1290: "it takes no writes; name the primary server",
    1792: "it takes no writes; name the primary server",
    1836: "it takes no writes; name the primary server",
    1969: "it took too long; look for long transactions",
    3024: "it took too long; look for long transactions",
    1205: "somebody holds a lock; look for long transactions",
    1054: "its schema is not what this program expects; was it altered?",
    1146: "its schema is not what this program expects; was it altered?",
}


def code_of(error: BaseException) -> int | None:
    """The error number of the server or the driver."""
    if isinstance(error, errors.MySQLError) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return None


def is_retryable(error: BaseException) -> bool:
    """Whether a retry mostly succeeds."""
    return code_of(error) in REPEATED


def is_lost(error: BaseException) -> bool:
    """Whether the connection is lost, or in an unknown state."""
    if isinstance(error, OSError | TimeoutError | EOFError | errors.InterfaceError):
        return True
    if isinstance(error, errors.InternalError):
        return code_of(error) is None
    if isinstance(error, RuntimeError):
        return any(words in str(error) for words in CLOSED)
    return code_of(error) in LOST or code_of(error) == INTERRUPTED


def is_misconfiguration(error: BaseException | None) -> bool:
    """Whether a retry cannot help: the URL or the permissions on the server are wrong."""
    return error is not None and code_of(error) in (1044, 1045, 1049, 1142, 1698)


def unavailable(error: BaseException, url: str) -> Unavailable:
    """The `Unavailable` for an error, with its cause; a new exception for each caller."""
    remedy = REMEDIES.get(code_of(error) or -1)
    if remedy is None:
        remedy = "it did not answer; try again" if is_lost(error) else "try again"
    answer = Unavailable(f"MySQL {url}: {remedy} ({str(error) or type(error).__name__})")
    answer.__cause__ = error
    return answer


def refusal(error: Exception, url: str) -> Exception:
    """The exception for a failed operation."""
    answer: OnbeatError
    if isinstance(error, OnbeatError):
        return error
    if code_of(error) in UNFIT or isinstance(error, UnicodeError | OverflowError):
        answer = Invalid(f"this cannot be stored: {error}")
    elif isinstance(error, errors.IntegrityError) or code_of(error) in DUPLICATE:
        answer = Conflict(f"MySQL {url} refused it: {error}")
    elif isinstance(
        error, errors.MySQLError | OSError | asyncio.IncompleteReadError | TimeoutError
    ) or is_lost(error):
        answer = unavailable(error, url)
    else:
        return error
    answer.__cause__ = error
    return answer
