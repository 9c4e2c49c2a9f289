"""What the site has beside the files of this folder: the changelog, applications, decisions.

A hook of mkdocs. The same pages are read on a forge, where links may leave the folder; here such a
link leads to the page that was made of its file, else into the repository, else it is its text.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).parent
ROOT: Final = DOCS.parent
LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
DECISIONS: Final = "decisions/index.md"
ELSEWHERE: Final = {
    "changelog.md": ROOT / "CHANGELOG.md",
    **{
        f"applications/{readme.parent.name}.md": readme
        for readme in sorted(ROOT.glob("applications/*/README.md"))
    },
}
"""Pages by their path in the site, each with its file outside of this folder."""


def on_config(config: Any) -> Any:
    """Add to the navigation what is listed nowhere by hand."""
    config.nav = [
        *config.nav[:-1],
        {"Decisions": [DECISIONS, *(f"decisions/{page.name}" for page in decisions())]},
        {"Applications": [name for name in ELSEWHERE if name.startswith("applications/")]},
        config.nav[-1],
    ]
    return config


def decisions() -> list[Path]:
    return sorted(DOCS.glob("decisions/[0-9]*.md"))


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # noqa: PLC0415  the tests of links have no mkdocs

    made = {name: page.read_text("utf-8") for name, page in ELSEWHERE.items()}
    for name, text in {**made, DECISIONS: decisions_page()}.items():
        files.append(File.generated(config, name, content=text))
    logo = (ROOT / "src" / "onbeat" / "dashboard" / "assets" / "logo.svg").read_text("utf-8")
    files.append(File.generated(config, "assets/favicon.svg", content=logo))
    white = logo.replace("#3346d3", "#fff")  # the head of each page is dark
    files.append(File.generated(config, "assets/logo.svg", content=white))
    return files


def decisions_page() -> str:
    """The list of all decisions, by their headings."""
    lines = [f"- [{heading(page)}]({page.name})" for page in decisions()]
    return "\n".join(["# Decisions", "", "The reasons for the design.", "", *lines, ""])


def heading(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    return with_links(markdown, name, ELSEWHERE.get(name, DOCS / name).parent)


def with_links(markdown: str, name: str, folder: Path) -> str:
    """The text of page `name`, whose relative links count from `folder`, with links of the site."""

    def changed(link: re.Match[str]) -> str:
        return (
            link[0] if link[2].startswith(("http:", "https:", "#")) else moved(link, name, folder)
        )

    kept = FENCE.findall(markdown)
    text = "\0".join(LINK.sub(changed, part) for part in FENCE.split(markdown))
    for block in kept:
        text = text.replace("\0", block, 1)
    return text


def moved(link: re.Match[str], name: str, folder: Path) -> str:
    """One link, as it is in the site."""
    path, mark, anchor = link[2].partition("#")
    file = (folder / path).resolve()
    target = page_of(file)
    if target is not None:
        back = os.path.relpath(target, Path(name).parent)
        return f"[{link[1]}]({back}{mark}{anchor})"
    repository = os.environ.get("ONBEAT_REPOSITORY", "").rstrip("/")
    if repository:
        return f"[{link[1]}]({repository}/blob/HEAD/{file.relative_to(ROOT)}{mark}{anchor})"
    return link[1]


def page_of(file: Path) -> str | None:
    """The page of the site that has this file, by its path there."""
    if file == DOCS / "decisions":
        return DECISIONS
    for name, page in ELSEWHERE.items():
        if file == page:
            return name
    return str(file.relative_to(DOCS)) if file.is_file() and file.is_relative_to(DOCS) else None
