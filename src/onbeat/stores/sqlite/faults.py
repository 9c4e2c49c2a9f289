"""What SQLite's errors mean for a caller, and what can be done about them."""

import apsw

from onbeat.model.errors import Conflict, Invalid, OnbeatError, Unavailable

# After these the connection's own state is in doubt: it is closed and opened anew. Above all, a
# failed fsync must not be tried again on the same handle, since the kernel forgets what it lost.
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

# These are about the database as a whole, so every operation of the batch fails with them.
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

BUSY_SECONDS = 10.0

REMEDIES: dict[type[apsw.Error], str] = {
    apsw.BusyError: (
        f"another process held it locked for more than {BUSY_SECONDS:g} s; "
        "look for a backup or a shell with an open transaction"
    ),
    apsw.LockedError: "it is locked within this process; try again",
    apsw.FullError: "the disk is full; free some space, and it goes on by itself",
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
    """What a fault comes out as, its cause kept; each caller gets an exception of its own."""
    if isinstance(error, OnbeatError):
        remedy = "it cannot be used any more"
    else:
        remedy = next((text for kind, text in REMEDIES.items() if isinstance(error, kind)), "")
    answer = Unavailable(f"SQLite database {path}: {remedy or 'try again'} ({error})")
    answer.__cause__ = error
    return answer


def refusal(error: Exception, path: str) -> Exception:
    """What an operation's own failure, with the database sound, comes out as."""
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
