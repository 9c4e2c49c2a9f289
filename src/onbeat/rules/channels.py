"""Reads the URLs of channels, and judges recipients."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from onbeat.model.channel import (
    AppriseService,
    Channel,
    ChatHook,
    MailServer,
    Secret,
    WebhookEndpoint,
)
from onbeat.model.errors import Invalid
from onbeat.model.limits import (
    ADDRESS_CHARS_MAX,
    LOCAL_PART_CHARS_MAX,
    RECIPIENT_CHARS_MAX,
)
from onbeat.rules.ip_policy import is_this_machine
from onbeat.rules.urls import checked_url

FORMS: Final = {
    "smtp": "smtp://USER@HOST:PORT?from=ADDRESS",
    "smtps": "smtps://USER@HOST:PORT?from=ADDRESS",
    "slack": "slack:///FILE or slack:VARIABLE",
    "teams": "teams:///FILE or teams:VARIABLE",
    "discord": "discord:///FILE or discord:VARIABLE",
    "webhook": "webhook://HOST/PATH",
    "webhook+http": "webhook+http://HOST/PATH",
    "apprise": "apprise:///FILE or apprise:VARIABLE",
}
CHATS: Final = frozenset({"slack", "teams", "discord"})
SMTP_PORT: Final = 587
SMTPS_PORT: Final = 465
MAIL_OPTIONS: Final = frozenset({"from", "password_file", "password_env", "starttls", "ca_file"})
SECRET_OPTIONS: Final = frozenset({"secret_file", "secret_env"})
TRUTHS: Final = {"true": True, "false": False}
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)

# The characters of an address that need no quotes (RFC 5322), and a host name in any alphabet.
LOCAL_PART: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
)
DOMAIN: Final = re.compile(r"\w([\w-]*\w)?(\.\w([\w-]*\w)?)*")
NAMED: Final = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")


def read_channel(url: str) -> Channel:
    """The channel of a URL. Raises `Invalid`, whose message has no part of the URL."""
    scheme = url.partition(":")[0].lower()
    if scheme not in FORMS:
        raise Invalid(f"a URL like {', '.join(FORMS.values())}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid(f"a URL like {FORMS[scheme]}") from None
    if scheme in {"smtp", "smtps"}:
        return mail_server(parts, port)
    if scheme.startswith("webhook"):
        return webhook_endpoint(parts)
    secret = secret_place(parts, scheme)
    return ChatHook(scheme, secret) if scheme in CHATS else AppriseService(secret)


def secret_place(parts: SplitResult, scheme: str) -> Secret:
    """A file after `:///`, or a variable after `:`."""
    has_more = parts.netloc or parts.query or parts.fragment
    if not has_more and parts.path.startswith("/") and len(parts.path) > 1:
        return Secret(file=unquote(parts.path))
    if not has_more and VARIABLE.fullmatch(parts.path):
        return Secret(variable=parts.path)
    raise Invalid(f"{FORMS[scheme]}: a file or a variable that holds the URL")


def mail_server(parts: SplitResult, port: int | None) -> MailServer:
    form = FORMS[parts.scheme]
    options = options_of(parts, MAIL_OPTIONS, form)
    if not parts.hostname or parts.path not in {"", "/"} or parts.fragment:
        raise Invalid(f"a URL like {form}")
    if "from" not in options:
        raise Invalid(f"a URL like {form}; `from` is missing")
    check_address(options["from"], "from")
    tls = parts.scheme == "smtps"
    result = MailServer(
        host=parts.hostname,
        port=port or (SMTPS_PORT if tls else SMTP_PORT),
        sender=options["from"],
        tls=tls,
        starttls=wants_starttls(options.get("starttls"), parts.hostname, tls=tls),
        user=unquote(parts.username) if parts.username else None,
        password=password_of(parts, options),
        ca_file=options.get("ca_file"),
    )
    check_login(result)
    return result


def wants_starttls(given: str | None, host: str, *, tls: bool) -> bool:
    if given is not None and given not in TRUTHS:
        raise Invalid("a URL whose `starttls` is true or false")
    if tls:
        return False
    return not is_this_machine(host) if given is None else TRUTHS[given]


def password_of(parts: SplitResult, options: Mapping[str, str]) -> Secret | None:
    places = [
        Secret(text=unquote(parts.password)) if parts.password else None,
        Secret(file=options["password_file"]) if "password_file" in options else None,
        Secret(variable=options["password_env"]) if "password_env" in options else None,
    ]
    given = [place for place in places if place is not None]
    if len(given) > 1:
        raise Invalid("a URL with one password: in it, in password_file or in password_env")
    return given[0] if given else None


def check_login(server: MailServer) -> None:
    if server.password is not None and server.user is None:
        raise Invalid("a URL with a user for its password")
    in_clear = not server.tls and not server.starttls and not is_this_machine(server.host)
    if server.password is not None and in_clear:
        raise Invalid("a URL without starttls=false: the password would be sent in clear")


def webhook_endpoint(parts: SplitResult) -> WebhookEndpoint:
    """All but its scheme and its own options is the URL that is called."""
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in pairs if name in SECRET_OPTIONS}
    file, variable = own.get("secret_file"), own.get("secret_env")
    if file is not None and variable is not None:
        raise Invalid("a URL with one secret: in secret_file or in secret_env")
    scheme = "http" if parts.scheme.endswith("+http") else "https"
    others = [(name, value) for name, value in pairs if name not in SECRET_OPTIONS]
    query = f"?{urlencode(others)}" if others else ""
    try:
        url = checked_url(f"{scheme}://{parts.netloc}{parts.path or '/'}{query}")
    except Invalid as error:
        raise Invalid(f"a URL like {FORMS[parts.scheme]}: {error}") from None
    is_signed = file is not None or variable is not None
    return WebhookEndpoint(url, Secret(file=file, variable=variable) if is_signed else None)


def options_of(parts: SplitResult, known: frozenset[str], form: str) -> dict[str, str]:
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise Invalid(f"a URL like {form} with each option once")
    for name, value in options.items():
        if name not in known or not value:
            raise Invalid(f"a URL like {form}; the options are {', '.join(sorted(known))}")
    return options


def check_recipient(channel: Channel | None, to: str | None, field: str) -> None:
    """Raises `Invalid` for a recipient that the channel cannot have. None is an unknown channel."""
    if isinstance(channel, ChatHook) and to is not None:
        raise Invalid(f"{field}: the channel is one place in a chat; leave {field} out", field)
    if isinstance(channel, MailServer):
        if to is None:
            raise Invalid(f"{field}: a mail needs an address", field)
        check_address(to, field)
    elif to is not None:
        check_recipient_text(to, field)


def check_recipient_text(to: str, field: str) -> None:
    if not to.strip():
        raise Invalid(f"{field} cannot be empty", field)
    if len(to) > RECIPIENT_CHARS_MAX:
        raise Invalid(f"{field} may have at most {RECIPIENT_CHARS_MAX} characters", field)
    if not to.isprintable():
        raise Invalid(f"{field} must not contain control characters", field)


def check_address(text: str, field: str) -> None:
    """Raises `Invalid` unless it is `ADDRESS` or `NAME <ADDRESS>`."""
    check_recipient_text(text, field)
    _, address = split_address(text)
    local, _, domain = address.rpartition("@")
    if (
        len(address) > ADDRESS_CHARS_MAX
        or len(local) > LOCAL_PART_CHARS_MAX
        or not LOCAL_PART.fullmatch(local)
        or not is_domain(domain)
    ):
        raise Invalid(f"{field} must be a mail address such as ada@example.com", field)


def split_address(text: str) -> tuple[str, str]:
    """The name, which may be empty, and the address."""
    match = NAMED.fullmatch(text.strip())
    return (match["name"].strip().strip('"'), match["address"]) if match else ("", text.strip())


def is_domain(text: str) -> bool:
    if not DOMAIN.fullmatch(text):
        return False
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def ascii_address(address: str) -> str:
    """The address with its domain as mail servers know it."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.encode('idna').decode()}"
