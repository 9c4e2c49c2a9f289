"""The pages of the documentation, and the blocks of code in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TRIED = [README, *sorted(ROOT.glob("docs/start/*.md")), *sorted(ROOT.glob("docs/guides/*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([a-z_]+\.py)\n")


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, by the comment in its first line."""
        match = FILE.match(self.text)
        return match[1] if match and self.language == "python" else None


@dataclass(frozen=True)
class Command:
    """One command after a `$`, and what the page shows that it prints."""

    text: str
    shown: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        if match[1] == language:
            yield Block(page, language, match[2], text.count("\n", 0, match.start(2)))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def commands(page: Path) -> Iterator[Command]:
    """All of the page, in order. A command goes on after a backslash, and while a quote is open."""
    for block in blocks(page, "console"):
        text, shown = "", ""
        for line in block.text.splitlines():
            if line.startswith("$ "):
                if text:
                    yield Command(text, shown)
                text, shown = line[2:], ""
            elif text.count("'") % 2 or text.endswith("\\"):
                text += "\n" + line
            else:
                shown += line + "\n"
        if text:
            yield Command(text, shown)


def with_language(pages: list[Path], language: str) -> list[Path]:
    return [page for page in pages if any(blocks(page, language))]
