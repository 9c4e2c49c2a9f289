"""Opens stores by URL, and the cipher of what they keep encrypted."""

import contextlib
from collections.abc import Collection, Generator
from functools import lru_cache
from typing import Final, cast

from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.role import Role
from onbeat.ports.encryption import NO_CIPHER, Cipher
from onbeat.ports.sessions import NO_SESSIONS, ServerSessions
from onbeat.ports.store import Store
from onbeat.rules.encryption import read_keys
from onbeat.settings.cells import is_map, map_at

KEY_SETS_KEPT: Final = 16  # a program has one set; tests have more
SQLITE: Final = "sqlite:///"


def open_store(url: str) -> Store:
    """The store for a URL, not opened yet. Drivers are imported on demand.

    Raises `Misconfigured` for an unknown URL scheme.
    """
    if url == "memory://":
        from onbeat.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        from onbeat.stores.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(url.removeprefix(SQLITE))
    if url.startswith(("postgresql://", "postgres://")):
        with require_driver("asyncpg", "postgres"):
            from onbeat.stores.postgres.store import PostgresStore  # noqa: PLC0415
        return PostgresStore(url)
    if url.startswith(("mysql://", "mariadb://")):
        with require_driver("asyncmy", "mysql"):
            from onbeat.stores.mysql.store import MysqlStore  # noqa: PLC0415
        return MysqlStore(url)
    if is_map(url):
        return open_cells(url)
    raise unknown_store(url)


def open_cells(url: str) -> Store:
    """The stores of a map of cells as one, for callers. Raises `Misconfigured` for the map."""
    from onbeat.stores.cells import CellStore  # noqa: PLC0415  few programs have cells

    map = map_at(url)
    # It has no verbs of roles but refuses them, as its own docstring says.
    return cast("Store", CellStore(url, map, [open_store(cell.url) for cell in map.cells]))


def check_front(url: str, roles: Collection[Role]) -> None:
    """Raises `Misconfigured` where loops would run over a map of cells."""
    if is_map(url) and any(role is not Role.API for role in roles):
        raise Misconfigured(
            "roles: over cells:/// there is only `api`, which sends each request to its cell; run"
            " the other roles in a service of each cell, with the URL of its own store",
            "roles",
        )


def sessions_of(store: Store) -> ServerSessions:
    """What the server of the store knows of the processes that are connected to it."""
    sessions: ServerSessions = getattr(store, "sessions", NO_SESSIONS)
    return sessions


def unknown_store(url: str) -> Misconfigured:
    # A mistyped URL may still contain a password, so only its scheme is shown.
    scheme = url.partition("://")[0] if "://" in url else url
    return Misconfigured(
        f"store {scheme!r} is not one that this version knows: memory://, sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE or cells:///PATH",
        "store",
    )


@contextlib.contextmanager
def require_driver(driver: str, extra: str) -> Generator[None, None, None]:
    """Raises `Misconfigured`, naming the extra to install, where the driver is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != driver:
            raise
        raise Misconfigured(
            f"this store needs {driver}; run: pip install 'onbeat[{extra}]'", "store"
        ) from error


@lru_cache(KEY_SETS_KEPT)
def cipher_for(keys: tuple[str, ...]) -> Cipher:
    """Encrypts with the first key. Raises `Misconfigured` for invalid keys."""
    if not keys:
        return NO_CIPHER
    try:
        read = read_keys(keys)
    except Invalid as error:
        raise Misconfigured(f"secrets.keys: {error}", "secrets.keys") from None
    try:
        from onbeat.targets.encryption import AesGcmCipher  # noqa: PLC0415  slow to load
    except ModuleNotFoundError as error:
        raise Misconfigured(
            "secrets.keys needs cryptography; run: pip install 'onbeat[encryption]'",
            "secrets.keys",
        ) from error
    return AesGcmCipher(read)
