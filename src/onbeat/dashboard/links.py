"""The paths of the dashboard. Values reach an address only here, where they are escaped."""

from typing import Final
from urllib.parse import quote, urlencode

PATHS: Final = {
    "now": "/",
    "timeline": "/timeline",
    "schedules": "/schedules",
    "jobs": "/jobs",
    "failures": "/failures",
    "queues": "/queues",
    "workers": "/workers",
    "flows": "/flows",
    "events": "/events",
    "dead": "/dead",
    "alerts": "/alerts",
    "audit": "/audit",
    "settings": "/settings",
    "help": "/help",
    "login": "/login",
    "assets": "/assets",
}

NEXT_CHARS_MAX: Final = 1_000  # with the key it has to fit the form of the log-in


def link(page: str, /, *parts: object, **query: object) -> str:
    """The path of a page, of one thing on it, with the query's values that are not None."""
    path = PATHS[page] + "".join(f"/{quote(str(part), safe='')}" for part in parts)
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path.replace('//', '/')}?{urlencode(given)}" if given else path.replace("//", "/")


def api_path(path: str, *parts: object) -> str:
    """A path of the API, for a button; `{}` stands for each of `parts`."""
    return path.format(*(quote(str(part), safe="") for part in parts))


def safe_next(path: str) -> str:
    """A path of this service, and the first page for anything else, or for too long a path."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own and len(path) <= NEXT_CHARS_MAX else PATHS["now"]
