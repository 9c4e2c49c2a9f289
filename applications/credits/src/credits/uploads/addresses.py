"""Addresses of uploads: which are of this site, and the file that each names.

A file is named by its path below the folder of uploads, YYYY/MM/DD/NAME. Nothing else is touched.
"""

import html
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote

NAME: Final = "static/uploads/"
FOLDER: Final = f"/{NAME}"
DATED: Final = re.compile(r"\d{4}/\d{2}/\d{2}/(?P<name>[^/\0]*[^/\0\s])", re.ASCII)
PATH_CHARS_MAX: Final = 500
SITE_CHARS_MAX: Final = 300
BREAKS: Final = re.compile(r"[\s\"'<>()\[\],;=]")
"""What may stand before an address inside of a text."""
ENDS: Final = tuple(
    map(
        re.compile,
        ('"', "'", "&", "[<>]", r"\s", r"[\"'<>\n]", r"[\s\"'<>]", r"[\s\"'<>()\[\],]"),
    )
)
"""What may end an address inside of a text: names of files may have spaces, quotes and brackets."""
SCHEME: Final = re.compile(r"(https?:)?//", re.IGNORECASE)
DOTS: Final = re.compile(r"(\.{0,2}/)+")
"""What leads to the root of a site, or up from a page: `/`, `./` and `../`."""
DOUBLED: Final = re.compile(r"(?<!:)/(?:\.?/)+")


def is_dated(path: str) -> bool:
    """Whether it has the form of a path of an upload, and stays below the folder."""
    match = DATED.fullmatch(path)
    return (
        match is not None
        and match["name"] not in {".", ".."}
        and len(path) <= PATH_CHARS_MAX
        and is_storable(path)
    )


def is_storable(path: str) -> bool:
    """Names of files may be no text, and so may texts in JSON; such a one is no upload."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def site_part(url: str) -> str | None:
    """What stands before the folder of uploads, as in `Config.sites`; empty in a relative address.

    None for the address of something else.
    """
    before, folder, _ = url.partition(FOLDER)
    if not folder:
        return None
    scheme = SCHEME.match(before)
    if scheme and len(before) > scheme.end():
        return site_name(before[scheme.end() :])
    return DOTS.sub("", f"{before}/", count=1).rstrip("/").lower()


def site_name(text: str) -> str:
    """A host with its port and path, as they are compared: no user, and no port that goes without.

    Which of the two ports it is does not matter: one too many only keeps a file.
    """
    host, slash, path = text.lower().partition("/")
    host = host.rpartition("@")[2].removesuffix(":443").removesuffix(":80")
    return host + slash + path


def is_local(url: str, sites: Sequence[str]) -> bool:
    """Whether it is the address of an upload that this site keeps itself.

    A site below a path has relative addresses that begin with that path.
    """
    part = site_part(url)
    return part is not None and (
        not part or any(part in {site, site.partition("/")[2]} for site in sites)
    )


def is_elsewhere(url: str, sites: Sequence[str]) -> bool:
    """Whether it is on another host, where nothing is ours to remove."""
    scheme = SCHEME.match(url)
    if scheme is None:
        return False
    host = site_name(url[scheme.end() :])
    return not any(host == site or host.startswith(f"{site}/") for site in sites)


def paths_of(url: str, sites: Sequence[str]) -> set[str]:
    """The files that an address may mean, as it stands and unquoted; empty unless it is local.

    An address in HTML is quoted twice, such as `a&amp;b.png`.
    """
    if not is_local(url, sites):
        return set()
    rest = url.partition(FOLDER)[2]
    whole = {rest, unescape(rest)}
    plain = whole | {re.split(r"[?#]", each, maxsplit=1)[0] for each in whole}
    return set(filter(is_dated, plain | set(map(unquote, plain))))


def references(data: str | bytes, sites: Sequence[str]) -> set[str]:
    """The files that the JSON of a block refers to; what is no JSON is read as it stands."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        values = list(strings(json.loads(text)))
    except (ValueError, RecursionError):
        values = [text]
    return {path for value in values for each in readings(value) for path in paths_in(each, sites)}


def readings(text: str) -> set[str]:
    """A text as it stands, and as it reads where the whole of it is quoted, folder included."""
    plain = text.replace("\\/", "/")
    quoted = unescape(plain), unquote(unescape(plain))
    found = {text, plain, *(each for each in quoted if each.count(NAME) > plain.count(NAME))}
    return found | {DOUBLED.sub("/", each) for each in found}


def unescape(text: str) -> str:
    """As HTML reads it; a text that has the number of a character in thousands of digits stays."""
    try:
        return html.unescape(text)
    except ValueError:
        return text


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
    """The files of a text that is one address, or has addresses in it, as HTML and Markdown do.

    An address may be relative to its page, and begin with the name of the folder.
    """
    yield from paths_of(text, sites)
    place = text.find(NAME)
    while place >= 0:
        before = BREAKS.split(text[max(0, place - SITE_CHARS_MAX) : place])[-1] or "/"
        for form in set(forms(text[place : place + 2 * PATH_CHARS_MAX])):
            yield from paths_of(before + form, sites)
        place = text.find(NAME, place + len(NAME))


def forms(text: str) -> Iterator[str]:
    """Where the address that `text` begins with may end. One too many only keeps a file."""
    for end in ENDS:
        address = end.split(text, maxsplit=1)[0]
        yield address
        yield address.rstrip(".,;:!*_")
        yield address.rstrip(".,;:!*_").removesuffix(")").removesuffix("]")


def escape_like(text: str) -> str:
    r"""For a pattern of LIKE with ESCAPE '\': its own signs mean themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
