"""Maps PostgreSQL's errors to the store's, with a remedy."""

import asyncpg

from onbeat.model.errors import Conflict, Invalid, OnbeatError, Unavailable

# These ended the transaction in favour of another: a retry mostly succeeds.
REPEAT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)

# After these the connection is lost, or in an unknown state.
BROKEN = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
)

REMEDIES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (asyncpg.ClientConfigurationError, "its URL cannot be right"),
    (asyncpg.TooManyConnectionsError, "it has no connection left; raise max_connections"),
    (asyncpg.InvalidAuthorizationSpecificationError, "it refused the user; check the URL"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist; create it"),
    (asyncpg.InsufficientPrivilegeError, "the user may not do this; grant it"),
    (asyncpg.DiskFullError, "the disk is full; free some space; writes resume automatically"),
    (asyncpg.ReadOnlySQLTransactionError, "it takes no writes; name the primary server"),
    (asyncpg.QueryCanceledError, "it took too long; look for long transactions"),
    (asyncpg.LockNotAvailableError, "somebody holds a lock; look for long transactions"),
    (
        (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedObjectError),
        "its schema is not what this program expects; was it altered?",
    ),
    (BROKEN, "it did not answer; try again"),
)

# A retry cannot help: the URL or the permissions on the server are wrong.
SETTING = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)

DATA = (asyncpg.DataError, OverflowError, UnicodeError)


def unavailable(error: BaseException, url: str) -> Unavailable:
    """The `Unavailable` for a driver's error, with its cause."""
    remedy = next((text for kind, text in REMEDIES if isinstance(error, kind)), "try again")
    # The driver appends the server's detail and hint on separate lines.
    reason = " ".join(str(error).split()) or type(error).__name__
    answer = Unavailable(f"PostgreSQL {url}: {remedy} ({reason})")
    answer.__cause__ = error
    return answer


def refusal(error: Exception, url: str) -> Exception:
    """The exception for a failed operation."""
    answer: OnbeatError
    match error:
        case OnbeatError():
            return error
        case asyncpg.IntegrityConstraintViolationError():
            answer = Conflict(f"PostgreSQL {url} refused it: {error}")
        case _ if isinstance(error, DATA):
            answer = Invalid(f"this cannot be stored: {error}")
        case _ if isinstance(error, (asyncpg.PostgresError, *BROKEN)):
            answer = unavailable(error, url)
        case _:
            return error
    answer.__cause__ = error
    return answer
