"""Opens stores by URL, and the cipher of what they keep encrypted."""

import contextlib
from collections.abc import Generator
from functools import lru_cache
from typing import Final

from onbeat.model.errors import Invalid, Misconfigured
from onbeat.ports.encryption import NO_CIPHER, Cipher
from onbeat.ports.store import Store
from onbeat.rules.encryption import read_keys

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
    raise unknown_store(url)


def unknown_store(url: str) -> Misconfigured:
    # A mistyped URL may still contain a password, so only its scheme is shown.
    scheme = url.partition("://")[0] if "://" in url else url
    return Misconfigured(
        f"store {scheme!r} is not one that this version knows: memory://, sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE",
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
