"""What PostgreSQL's errors mean for a caller, and what can be done about them."""

from typing import NoReturn

import asyncpg

from onbeat.model.errors import Conflict, Invalid, OnbeatError, Unavailable

# These ended the transaction to let others go on: the same again will mostly succeed.
REPEAT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)

# After these the connection itself is gone, or in a state that nobody knows.
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
    (asyncpg.TooManyConnectionsError, "it has no connection left; raise max_connections"),
    (asyncpg.InvalidAuthorizationSpecificationError, "it refused the user; check the URL"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist; create it"),
    (asyncpg.InsufficientPrivilegeError, "the user may not do this; grant it"),
    (asyncpg.DiskFullError, "the disk is full; free some space, and it goes on by itself"),
    (asyncpg.ReadOnlySQLTransactionError, "it takes no writes; name the primary server"),
    (asyncpg.QueryCanceledError, "it took too long; look for long transactions"),
    (asyncpg.LockNotAvailableError, "somebody holds a lock; look for long transactions"),
    (
        (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedObjectError),
        "its schema is not what this program expects; was it altered?",
    ),
    (BROKEN, "it did not answer; try again"),
)

DATA = (asyncpg.DataError, OverflowError, UnicodeError)


def unavailable(error: BaseException, url: str) -> Unavailable:
    """What a driver's error comes out as, its cause kept."""
    remedy = next((text for kind, text in REMEDIES if isinstance(error, kind)), "try again")
    answer = Unavailable(f"PostgreSQL {url}: {remedy} ({str(error) or type(error).__name__})")
    answer.__cause__ = error
    return answer


def raise_refusal(error: Exception, url: str) -> NoReturn:
    answer = refusal(error, url)
    if answer is error:
        raise error
    raise answer from error


def refusal(error: Exception, url: str) -> Exception:
    """What an operation's failure comes out as."""
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
    return answer
