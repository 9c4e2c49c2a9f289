"""Addresses of uploads: which are of this site, and the file that each names.

A file is named by its path below the folder of uploads, YYYY/MM/DD/NAME. Nothing else is touched.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote

FOLDER: Final = "/static/uploads/"
DATED: Final = re.compile(r"\d{4}/\d{2}/\d{2}/(?P<name>[^/\0]*[^/\0\s])", re.ASCII)
PATH_CHARS_MAX: Final = 500
SITE_CHARS_MAX: Final = 300
BREAKS: Final = re.compile(r"[\s\"'<>()\[\],;=]")
"""What may stand before an address inside of a text."""
QUOTES: Final = re.compile(r"[\"'<>\n]")
SPACE: Final = re.compile(r"[\s\"'<>]")
MARKS: Final = re.compile(r"[\s\"'<>()\[\],]")
"""What may end an address inside of a text: names of files may have spaces and brackets."""
SCHEME: Final = re.compile(r"(https?:)?//", re.IGNORECASE)


def is_dated(path: str) -> bool:
    """Whether it has the form of a path of an upload, and stays below the folder."""
    match = DATED.fullmatch(path)
    return match is not None and match["name"] not in {".", ".."} and len(path) <= PATH_CHARS_MAX


def site_part(url: str) -> str | None:
    """What stands before the folder of uploads, as in `Config.sites`; empty in a relative address.

    None for the address of something else.
    """
    before, folder, _ = url.partition(FOLDER)
    if not folder:
        return None
    if not before:
        return ""
    scheme = SCHEME.match(before)
    return before[scheme.end() :].lower() if scheme and len(before) > scheme.end() else None


def is_local(url: str, sites: Sequence[str]) -> bool:
    """Whether it is the address of an upload that this site keeps itself."""
    part = site_part(url)
    return part is not None and (not part or part in sites)


def is_elsewhere(url: str, sites: Sequence[str]) -> bool:
    """Whether it is on another host, where nothing is ours to remove."""
    scheme = SCHEME.match(url)
    if scheme is None:
        return False
    host = url[scheme.end() :].lower()
    return not any(host == site or host.startswith(f"{site}/") for site in sites)


def paths_of(url: str, sites: Sequence[str]) -> set[str]:
    """The files that an address may mean, as it stands and unquoted; empty unless it is local."""
    if not is_local(url, sites):
        return set()
    rest = url.partition(FOLDER)[2]
    plain = re.split(r"[?#]", rest, maxsplit=1)[0]
    return set(filter(is_dated, (rest, plain, unquote(rest), unquote(plain))))


def references(data: str | bytes, sites: Sequence[str]) -> set[str]:
    """The files that the JSON of a block refers to; what is no JSON is read as it stands."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        values = list(strings(json.loads(text)))
    except (ValueError, RecursionError):
        values = [text, text.replace("\\/", "/")]
    return {path for value in values for path in paths_in(value, sites)}


def strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                yield from strings(item)
        case dict():
            for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
                yield from strings(key)
                yield from strings(item)
        case _:
            pass


def paths_in(text: str, sites: Sequence[str]) -> Iterator[str]:
    """The files of a text that is one address, or has addresses in it, as HTML and Markdown do."""
    yield from paths_of(text, sites)
    place = text.find(FOLDER)
    while place >= 0:
        before = BREAKS.split(text[max(0, place - SITE_CHARS_MAX) : place])[-1]
        for form in forms(text[place : place + 2 * PATH_CHARS_MAX]):
            yield from paths_of(before + form, sites)
        place = text.find(FOLDER, place + len(FOLDER))


def forms(text: str) -> Iterator[str]:
    """Where the address that `text` begins with may end. One too many only keeps a file."""
    for end in (QUOTES, SPACE, MARKS):
        address = end.split(text, maxsplit=1)[0]
        yield address
        yield address.rstrip(".,;:!*_")
        yield address.rstrip(".,;:!*_").removesuffix(")").removesuffix("]")


def escape_like(text: str) -> str:
    r"""For a pattern of LIKE with ESCAPE '\': its own signs mean themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
