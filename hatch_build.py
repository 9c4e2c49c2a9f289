"""Metadata that needs the address of the public repository: ONBEAT_REPOSITORY, set at a release.

A package index shows the README without the files beside it, so its links become absolute. Without
that address nothing is guessed: the package then has no addresses, and the README its own links.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?://|mailto:|#)([^)\s]+\))")


class AddressHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get("ONBEAT_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text("utf-8")
        if repository:
            text = with_absolute_links(text, repository)
            metadata["urls"] = urls(repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str) -> str:
    """The default branch is HEAD, whatever its name is. A picture is the file and not its page."""

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}{link[2]}{repository}/{'raw' if link[1] else 'blob'}/HEAD/{link[3]}"

    return LINK.sub(absolute, text)


def urls(repository: str) -> dict[str, str]:
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/HEAD/docs/index.md",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Source": repository,
    }
