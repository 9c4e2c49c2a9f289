"""Parses the URL of a store."""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from onbeat.model.errors import Misconfigured

SCHEMES = frozenset({"postgresql", "postgres"})
SCHEMA_DEFAULT = "onbeat"
SCHEMA_FORM = re.compile(r"[a-z_][a-z0-9_]{0,47}")  # unquoted, and leaves room for a suffix
SECRETS = frozenset({"password", "sslpassword", "passfile"})


class Dsn(msgspec.Struct, frozen=True, kw_only=True):
    """`dsn` is for the driver; `url` has no secrets."""

    dsn: str
    url: str
    schema: str

    @property
    def channel(self) -> str:
        return f"{self.schema}_hints"


def parse_dsn(url: str) -> Dsn:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.removeprefix("/"):
        raise Misconfigured("a PostgreSQL store is postgresql://USER@HOST/DATABASE", key="store")
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(query).get("schema", SCHEMA_DEFAULT)
    if not SCHEMA_FORM.fullmatch(schema):
        raise Misconfigured(
            f"schema {schema!r} in the store's URL: use small letters, digits and underscores",
            key="store",
        )
    options = [(name, value) for name, value in query if name != "schema"]
    shown = [(name, value) for name, value in query if name not in SECRETS]
    return Dsn(
        dsn=urlunsplit(parts._replace(scheme="postgresql", query=urlencode(options))),
        url=urlunsplit(
            parts._replace(
                netloc=without_password(parts.netloc), query=urlencode(shown, quote_via=quote)
            )
        ),
        schema=schema,
    )


def without_password(netloc: str) -> str:
    user, at, host = netloc.rpartition("@")
    return user.partition(":")[0] + at + host
