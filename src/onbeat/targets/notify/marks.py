"""The marks of a template, checked before the library reads it.

Its expressions for marks try the rest of the text again and again where a mark has no end, or holds
many blanks: 64 kB would take minutes. What passes here it reads in linear time.
"""

import re
from typing import Final

from onbeat.targets.notify.broken import Broken

MARK: Final = re.compile(r"\{\{|\{%")
ENDS: Final = {"{{": "}}", "{%": "%}"}
BLANKS_MAX: Final = 100
BLANKS: Final = re.compile(rf"\s{{{BLANKS_MAX + 1}}}")
BLOCK_NAME: Final = re.compile(r"-?\s*(raw|doc)\s*-?")
BLOCK_ENDS: Final = {name: re.compile(rf"\{{%-?\s*end{name}\s*-?%\}}") for name in ("raw", "doc")}


def check_marks(text: str) -> None:
    """Raises `Broken` for a mark without an end or content, and for many blanks in one."""
    at = 0
    while (mark := MARK.search(text, at)) is not None:
        start = mark.start()
        end = text.find(ENDS[mark[0]], mark.end())
        if end < 0:
            raise Broken(f"expected '{ENDS[mark[0]]}', found the end of the text", start)
        inside = text[mark.end() : end]
        if not inside.strip("- \t\r\n"):
            raise Broken("there is nothing between the marks", start)
        if BLANKS.search(inside):
            raise Broken(f"there are more than {BLANKS_MAX} blanks in a row", start)
        at = end + len(ENDS[mark[0]])
        if mark[0] == "{%":
            at = end_of_block(text, inside, start, at)


def end_of_block(text: str, inside: str, start: int, at: int) -> int:
    """Where to look on: after the end of a block whose content is not read."""
    block = BLOCK_NAME.fullmatch(inside)
    if block is None:
        return at
    end = BLOCK_ENDS[block[1]].search(text, at)
    if end is None:
        raise Broken(f"{block[1]!r} has no end", start)
    return end.end()
