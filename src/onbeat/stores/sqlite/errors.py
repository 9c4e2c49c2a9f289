"""Maps SQLite's errors to the store's, with a remedy."""

import apsw

from onbeat.model.errors import Conflict, Invalid, OnbeatError, Unavailable

# After these the connection's state is unknown: it is closed and opened again. In particular, a
# failed fsync must not be retried on the same handle, since the kernel forgets the lost pages.
REOPEN = (
    apsw.CantOpenError,
    apsw.ConnectionClosedError,
    apsw.CorruptError,
    apsw.IOError,
    apsw.MisuseError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
)

# These concern the database as a whole, so every operation of the batch fails with them.
WHOLE = (
    *REOPEN,
    apsw.AuthError,
    apsw.BusyError,
    apsw.FullError,
    apsw.InterruptError,
    apsw.LockedError,
    apsw.NoLFSError,
    apsw.PermissionsError,
    apsw.SQLError,
)

# When a file is opened, a retry cannot help: the file or its permissions are wrong.
SETTING = (apsw.CantOpenError, apsw.NotADBError, apsw.PermissionsError, apsw.ReadOnlyError)

BUSY_SECONDS = 2.5
"""How long an operation waits for another process's lock: callers get an error within 3 s."""

BUSY_AGAIN_SECONDS = 0.2
"""How long further operations wait after that, until the lock is free."""

BUSY_OPEN_SECONDS = 10.0
"""How long an opening store waits, since another process may be migrating the schema."""

REMEDIES: dict[type[apsw.Error], str] = {
    apsw.BusyError: (
        "another process held it locked for too long; "
        "look for a backup or a shell with an open transaction"
    ),
    apsw.LockedError: "it is locked within this process; try again",
    apsw.FullError: "the disk is full; free some space; writes resume automatically",
    apsw.CorruptError: (
        "the file is damaged; stop all processes, keep a copy, and restore a backup "
        "or run `.recover` of the sqlite3 shell"
    ),
    apsw.NotADBError: "the file is not a SQLite database; name another file",
    apsw.ReadOnlyError: "it cannot be written; check the rights of the file and of its directory",
    apsw.PermissionsError: "access was refused; check the rights of the file and its directory",
    apsw.CantOpenError: (
        "the file cannot be opened; check that its directory exists and may be written"
    ),
    apsw.IOError: "the disk failed to read or write; look at the system's log",
    apsw.NoMemError: "memory ran out",
    apsw.SQLError: "its schema is not what this program expects; was it altered?",
}


def unavailable(error: BaseException, path: str) -> Unavailable:
    """The `Unavailable` for a fault, with its cause; a new exception for each caller."""
    if isinstance(error, OnbeatError):
        remedy = "it cannot be used any more"
    else:
        remedy = next((text for kind, text in REMEDIES.items() if isinstance(error, kind)), "")
    answer = Unavailable(f"SQLite database {path}: {remedy or 'try again'} ({error})")
    answer.__cause__ = error
    return answer


def refusal(error: Exception, path: str) -> Exception:
    """The exception for an operation that failed by itself, on a sound database."""
    answer: OnbeatError
    match error:
        case apsw.ConstraintError():
            answer = Conflict(f"SQLite database {path} refused it: {error}")
        case apsw.TooBigError() | apsw.MismatchError() | UnicodeError() | OverflowError():
            answer = Invalid(f"this cannot be stored: {error}")
        case apsw.Error():
            answer = unavailable(error, path)
        case _:
            return error
    answer.__cause__ = error
    return answer
