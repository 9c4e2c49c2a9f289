"""The common parts of broker URLs."""

import ssl
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.transports.url_options import UrlOptions

TRUTHS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def seconds(query: UrlOptions, name: str) -> float:
    try:
        value = float(query.text(name))
    except ValueError:
        value = 0.0
    longest = query.option(name).high
    if not 0 < value <= longest:
        query.refuse(f"{name} is a number of seconds above 0, up to {longest}")
    return value


def flag(query: UrlOptions, name: str) -> bool:
    return truth(query, name, query.text(name))


def truth(query: UrlOptions, name: str, text: str) -> bool:
    value = TRUTHS.get(text.lower())
    if value is None:
        query.refuse(f"{name} is true or false")
    return value


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of files; None for the system's trusted certificates, and for no client certificate."""

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


def tls(query: UrlOptions, *, used: bool, scheme: str) -> Tls | None:
    """The options `cafile`, `certfile`, `keyfile` and `verify`; None if TLS is not used."""
    files = query.take_all(("cafile", "certfile", "keyfile"))
    verify = query.take("verify")
    if not used:
        if files or verify is not None:
            query.refuse(f"cafile, certfile, keyfile and verify need {scheme}://")
        return None
    request = Tls(
        cafile=files.get("cafile"),
        certfile=files.get("certfile"),
        keyfile=files.get("keyfile"),
        verify=truth(query, "verify", verify or "true"),
    )
    try:
        request.context()
    except OSError as error:
        query.refuse(f"the TLS files cannot be read: {error}")
    return request


def split(url: str, form: str, schemes: frozenset[str]) -> SplitResult:
    """The parts of a URL with one of these schemes and a valid port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The original message may quote part of a password that contains an unescaped slash.
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
