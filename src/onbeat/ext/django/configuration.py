"""The dictionary `ONBEAT` of the Django settings, and the store that it names."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS

from onbeat.app.options import Options

NAME: Final = "ONBEAT"
SERVERS: Final = {"postgresql": "postgresql", "postgis": "postgresql", "mysql": "mysql"}


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `ONBEAT` may say.

    `store` is the URL of a store or a service; without one, the store is in the `database` of that
    alias. `database` also names the connection whose transactions jobs are sent in.
    """

    store: str | None = None
    database: str = DEFAULT_DB_ALIAS
    api_key: str | None = None
    owner: str | None = None
    release: str | None = None
    options: Any = None

    @property
    def url(self) -> str:
        return self.store or url_of_database(self.database)

    @property
    def is_shared(self) -> bool:
        """Whether the store is in the database of the alias."""
        return self.store is None


def configuration() -> Configuration:
    """Raises ImproperlyConfigured, naming the wrong key."""
    given: Mapping[str, Any] = getattr(settings, NAME, {})
    try:
        result = msgspec.convert(given, Configuration)
    except msgspec.ValidationError as error:
        raise ImproperlyConfigured(f"{NAME}: {error}") from error
    if result.options is not None and not isinstance(result.options, Options):
        raise ImproperlyConfigured(f"{NAME}: options must be made by onbeat.Options(...)")
    if result.database not in settings.DATABASES:
        raise ImproperlyConfigured(f"{NAME}: DATABASES has no {result.database!r}")
    return result


def url_of_database(alias: str) -> str:
    """The URL of a store in this database. Raises ImproperlyConfigured where there can be none."""
    database = settings.DATABASES[alias]
    engine = str(database["ENGINE"]).rpartition(".")[2]
    if engine == "sqlite3":
        raise ImproperlyConfigured(
            f"{NAME}: DATABASES[{alias!r}] is SQLite, of which Django and Onbeat have a copy each; "
            "two must not share a file. Give Onbeat one of its own: "
            f'{NAME} = {{"store": "sqlite:////srv/shop/onbeat.db"}}'
        )
    if engine not in SERVERS:
        raise ImproperlyConfigured(
            f"{NAME}: Onbeat has no store in {database['ENGINE']} (DATABASES[{alias!r}]); "
            "name one by `store`"
        )
    return server_url(SERVERS[engine], database)


def server_url(scheme: str, database: Mapping[str, Any]) -> str:
    user, password = str(database.get("USER") or ""), str(database.get("PASSWORD") or "")
    host, port = str(database.get("HOST") or ""), str(database.get("PORT") or "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = "" if host.startswith("/") else (f"[{host}]" if ":" in host else host)
    query = f"?{urlencode({'host': host})}" if host.startswith("/") else ""
    at = f"{login}@" if login else ""
    colon = f":{port}" if port else ""
    return f"{scheme}://{at}{place}{colon}/{quote(str(database['NAME']), safe='')}{query}"
