"""Validates and normalizes a callback: its URL, method, headers and secrets."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import msgspec

from onbeat.model.credentials import HIDDEN
from onbeat.model.encrypted import check_in_clear
from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import HEADER_BYTES_MAX, HEADERS_MAX, SECRETS_MAX, URL_CHARS_MAX
from onbeat.rules.ip_policy import LOOPBACK, NOTHING_MORE, Allowed, verdict

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  a prefix is no secret
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64

# Onbeat sets these headers itself, or they would change where the request begins and ends.
DENIED_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "idempotency-key",
        "keep-alive",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
DENIED_HEADER_PREFIXES: Final = ("onbeat-", "proxy-", "webhook-")

# Proxies identify their client by these; a receiver that trusts this address could be deceived.
PROXY_HEADERS: Final = frozenset(
    {
        "cf-connecting-ip",
        "client-ip",
        "fastly-client-ip",
        "forwarded",
        "max-forwards",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-forwarded",
        "x-original-forwarded-for",
        "x-original-url",
        "x-real-ip",
        "x-rewrite-url",
    }
)
PROXY_HEADER_PREFIX: Final = "x-forwarded-"

FORM: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?:#.*)?",
    re.ASCII | re.IGNORECASE,
)
AUTHORITY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.ASCII)
LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
UNSAFE: Final = re.compile(r'["<>^`{|}]', re.ASCII)
TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*", re.ASCII)


class UrlParts(msgspec.Struct, frozen=True):
    """The parts of a URL; `rest` is path and query. An IPv6 host has no brackets."""

    scheme: str
    host: str
    port: int | None
    rest: str

    @property
    def port_or_default(self) -> int:
        return self.port or (443 if self.scheme == "https" else 80)

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port else "")

    def __str__(self) -> str:
        return self.origin + self.rest


def checked_url(text: str, *, field: str = "url") -> str:
    """The URL in the form that is stored and called; raises `Invalid`.

    Scheme and host become lower case, characters that are invalid in URLs are escaped, and the
    fragment is dropped, as it is never sent. All else stays as given.
    """
    check_in_clear(text, field)
    return str(url_parts(text, field=field))


def url_parts(text: str, *, field: str = "url") -> UrlParts:
    if len(text) > URL_CHARS_MAX:
        raise TooLarge(f"the URL is longer than {URL_CHARS_MAX} characters", field)
    check_characters(text, field)
    form = FORM.fullmatch(text)
    if form is None:
        raise Invalid("not a URL: it must look like https://host/path", field)
    scheme = form["scheme"].lower()
    if scheme not in {"http", "https"}:
        raise Invalid(f"the URL's scheme must be http or https, not {scheme}", field)
    host, port = host_and_port(form["authority"], field)
    return UrlParts(scheme, host, port, checked_rest(form["rest"], field))


def check_characters(text: str, field: str) -> None:
    # Parsers differ about backslashes, blanks and other alphabets, and so about the host (RFC 3986
    # allows none of them). Such URLs are refused before a second parser sees them.
    if "\\" in text:
        raise Invalid("the URL must not hold a backslash", field)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise Invalid(
            "the URL must be plain ASCII without blanks: write other characters as %XX,"
            " and a host name in its xn-- form",
            field,
        )


def host_and_port(authority: str, field: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise Invalid("the URL must not hold a user name or password: use a header", field)
    form = AUTHORITY.fullmatch(authority)
    if form is None or not form["host"]:
        raise Invalid("the URL has no proper host", field)
    return checked_host(form["host"].lower(), field), checked_port(form["port"], field)


def checked_host(host: str, field: str) -> str:
    if host.startswith("["):
        return checked_ipv6(host[1:-1], field)
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise Invalid(f"the URL's host {host!r} is not a host name", field)
    # A resolver reads 127.1, 0x7f.1 and 2130706433 all as 127.0.0.1; only one spelling is allowed.
    if NUMERIC_LABEL.fullmatch(labels[-1]) and not is_ipv4(host):
        raise Invalid(f"the URL's host {host!r} must be four decimal numbers or a name", field)
    return host


def checked_ipv6(text: str, field: str) -> str:
    try:
        ip = IPv6Address(text)
    except AddressValueError:
        raise Invalid(f"the URL's host [{text}] is not an IPv6 address", field) from None
    if ip.scope_id is not None:
        raise Invalid("the URL's host must not hold a zone id", field)
    mapped = ip.ipv4_mapped
    if mapped is not None:
        # Python versions format these differently, and another version may read the stored URL.
        return f"::ffff:{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}"
    return ip.compressed


def is_ipv4(text: str) -> bool:
    try:
        return str(IPv4Address(text)) == text
    except AddressValueError:
        return False


def checked_port(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    if not PORT.fullmatch(text) or not 1 <= int(text) <= 65_535:
        raise Invalid("the URL's port must be a number from 1 to 65535", field)
    return int(text)


def checked_rest(rest: str, field: str) -> str:
    if BAD_ESCAPE.search(rest):
        raise Invalid("in the URL, % must be followed by two hexadecimal digits", field)
    return UNSAFE.sub(escape, rest)


def escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def shown_url(url: str) -> str:
    """The URL for logs and messages, without its query, which may hold secrets."""
    form = FORM.fullmatch(url)
    if form is None:
        return "the callback"
    host = form["authority"].rpartition("@")[2]
    return f"{form['scheme']}://{host}{form['rest'].partition('?')[0]}"[:200]


def refusal_at_creation(
    url: str, *, private_allowed: bool, allowed: Allowed = NOTHING_MORE
) -> str | None:
    """Why this URL is refused before it is ever called; None if only its connection can tell.

    Expects the result of `checked_url`. Names are resolved and judged at each connection; this
    checks only what needs no resolving.
    """
    host = url_parts(url).host
    private_allowed = private_allowed or allowed.names(host)
    if host.removesuffix(".").rpartition(".")[2] == "localhost":
        return None if private_allowed else LOOPBACK
    if ":" in host or is_ipv4(host):
        return verdict(host, private_allowed=private_allowed, allowed=allowed)
    return None


def checked_method(text: str, *, field: str = "method") -> str:
    method = text.upper()
    if method not in METHODS or not text.isascii():
        raise Invalid(f"the method must be one of {', '.join(METHODS)}", field)
    return method


def checked_headers(headers: Mapping[str, str], *, field: str = "headers") -> dict[str, str]:
    """The headers with values stripped; raises `Invalid` that names the header at fault."""
    if len(headers) > HEADERS_MAX:
        raise TooLarge(f"a callback can have at most {HEADERS_MAX} headers", field)
    checked: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in headers.items():
        check_header_name(name, field)
        if name.lower() in seen:
            raise Invalid(f"the header {name} is given twice", f"{field}.{name}")
        seen.add(name.lower())
        checked[name] = checked_header_value(name, value, field)
    return checked


def check_header_name(name: str, field: str) -> None:
    if not TOKEN.fullmatch(name) or len(name) > HEADER_BYTES_MAX:
        raise Invalid(f"{name[:50]!r} is not the name of a header", field)
    # Receivers behind CGI or WSGI do not distinguish - and _.
    plain = name.lower().replace("_", "-")
    if plain in DENIED_HEADERS or plain.startswith(DENIED_HEADER_PREFIXES):
        raise Invalid(f"the header {name} is set by Onbeat itself", f"{field}.{name}")
    if plain in PROXY_HEADERS or plain.startswith(PROXY_HEADER_PREFIX):
        raise Invalid(
            f"the header {name} is a proxy's to set, and receivers may trust what it says;"
            " use a name of your own",
            f"{field}.{name}",
        )


def checked_header_value(name: str, value: str, field: str) -> str:
    check_in_clear(value, f"{field}.{name}")
    if len(value) > HEADER_BYTES_MAX:
        raise TooLarge(f"the header {name} is over {HEADER_BYTES_MAX} bytes", f"{field}.{name}")
    if not HEADER_VALUE.fullmatch(value):
        raise Invalid(
            f"the header {name} must be plain ASCII without line breaks or control characters",
            f"{field}.{name}",
        )
    return value.strip(" \t")


def checked_secrets(
    given: str | Sequence[str] | None, *, field: str = "secret"
) -> str | tuple[str, ...] | None:
    """The signing secrets in order; `***`, which stands for a stored one, is accepted.

    A single secret is stored as a text, for compatibility with older records.
    """
    if given is None or isinstance(given, str):
        return None if not given else checked_or_hidden(given, field)
    if not 1 <= len(given) <= SECRETS_MAX:
        raise Invalid(
            f"{field} must be one secret, or a list of 1 to {SECRETS_MAX}; null signs no more",
            field,
        )
    places = enumerate(given)
    secrets = tuple(checked_or_hidden(text, f"{field}[{place}]") for place, text in places)
    check_distinct(secrets, field)
    first, *others = secrets
    return secrets if others or first == HIDDEN else first


def check_distinct(secrets: Sequence[str], field: str) -> None:
    if len(set(secrets)) < len(secrets):
        raise Invalid(f"{field}: a secret is given twice", field)


def checked_or_hidden(text: str, field: str) -> str:
    return text if text == HIDDEN else checked_secret(text, field=field)


def checked_secret(text: str, *, field: str = "secret") -> str:
    """A Standard Webhooks secret; the error message never contains it."""
    encoded = text.removeprefix(SECRET_PREFIX)
    try:
        secret = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if encoded == text or not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise Invalid(
            f"the secret must be {SECRET_PREFIX} and then {SECRET_BYTES_MIN} to"
            f" {SECRET_BYTES_MAX} random bytes in base64",
            field,
        )
    return SECRET_PREFIX + b64encode(secret).decode()
