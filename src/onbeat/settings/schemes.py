"""Which stores and transports this version has, by the scheme of their URL."""

from collections.abc import Callable, Mapping
from typing import Final

from onbeat.settings.readers import did_you_mean

STORES: Final = {
    "sqlite": "sqlite:///PATH",
    "postgresql": "postgresql://USER@HOST/DATABASE",
    "mysql": "mysql://USER@HOST/DATABASE",
    "memory": "memory://",
}
# Other names that people know them by.
ALIASES: Final = {"postgres": "postgresql", "mariadb": "mysql"}
TRANSPORTS: Final = {"memory": "memory://"}

# Known to the documentation, so a person may try them; the answer should not call them a typo.
LATER: Final = frozenset({"redis", "rediss", "amqp", "amqps", "sqs", "kafka"})


def url_of(known: Mapping[str, str]) -> Callable[[object], str]:
    """A URL whose scheme is one of the known."""
    forms = " or ".join(known.values())

    def read(value: object) -> str:
        if not isinstance(value, str) or ":" not in value:
            raise ValueError(f"a URL like {forms}")
        url = value.strip()
        written = url.partition(":")[0].lower()
        scheme = ALIASES.get(written, written)
        if scheme in LATER and scheme not in known:
            raise ValueError(f"{forms}: this version has nothing else yet for {scheme}")
        if scheme not in known:
            raise ValueError(f"a URL like {forms}{did_you_mean(scheme, list(known))}")
        check_form(scheme, url)
        return url

    return read


def check_form(scheme: str, url: str) -> None:
    if scheme == "memory" and url.partition("?")[0].lower() != "memory://":
        raise ValueError("memory:// and nothing after it")
    if scheme == "sqlite" and not url[len("sqlite:") :].startswith("///"):
        raise ValueError('sqlite:///PATH with three slashes ("sqlite:////var/lib/…" from the root)')
    if scheme == "sqlite" and not url[len("sqlite:///") :].partition("?")[0]:
        raise ValueError("sqlite:///PATH with the path of a file; memory:// keeps nothing")
