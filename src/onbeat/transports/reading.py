"""What the URLs of several brokers have in common."""

import ssl
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.transports.query import Query

SECONDS_MAX: Final = 3_600.0
TRUTHS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def seconds(query: Query, name: str, default: float) -> float:
    try:
        value = float(query.text(name, str(default)))
    except ValueError:
        value = 0.0
    if not 0 < value <= SECONDS_MAX:
        query.refuse(f"{name} is a number of seconds above 0, up to {SECONDS_MAX:g}")
    return value


def flag(query: Query, name: str, *, default: bool) -> bool:
    return truth(query, name, query.text(name, str(default)))


def truth(query: Query, name: str, text: str) -> bool:
    value = TRUTHS.get(text.lower())
    if value is None:
        query.refuse(f"{name} is true or false")
    return value


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of files; `None` for what the system trusts, and for no certificate of one's own."""

    cafile: str | None
    certfile: str | None
    keyfile: str | None
    verify: bool

    def context(self) -> ssl.SSLContext:
        """Reads the files; raises `OSError` when it cannot."""
        context = ssl.create_default_context(cafile=self.cafile)
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def tls(query: Query, *, used: bool, scheme: str) -> Tls | None:
    """Of the options `cafile`, `certfile`, `keyfile` and `verify`; None where it is not used."""
    files = query.named(("cafile", "certfile", "keyfile"))
    verify = query.taken("verify")
    if not used:
        if files or verify is not None:
            query.refuse(f"cafile, certfile, keyfile and verify need {scheme}://")
        return None
    asked = Tls(
        cafile=files.get("cafile"),
        certfile=files.get("certfile"),
        keyfile=files.get("keyfile"),
        verify=truth(query, "verify", verify or "true"),
    )
    try:
        asked.context()
    except OSError as error:
        query.refuse(f"the TLS files cannot be read: {error}")
    return asked


def split(url: str, form: str, schemes: frozenset[str]) -> SplitResult:
    """The parts of a URL of one of these schemes, with a port that can be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # Its message may quote a part of the password, with a slash in it that is not escaped.
        raise Misconfigured(
            f"host and port cannot be read; the URL of this transport is {form}, with the "
            "password percent-encoded",
            key="transport",
        ) from None
    if parts.scheme not in schemes:
        raise Misconfigured(f"the URL of this transport is {form}", key="transport")
    return parts


def without_password(parts: SplitResult) -> str:
    names, _, host = parts.netloc.rpartition("@")
    user = names.partition(":")[0]
    return parts._replace(netloc=f"{user}@{host}" if user else host).geturl()
