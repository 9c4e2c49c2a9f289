"""Runs the Python blocks of one page, in order, in one namespace: `run_page.py PAGE` in a folder.

A block that begins with the name of a file is saved under that name, for those after it to import.
"""

import sys
from pathlib import Path

from docs.pages import blocks


def main(page: Path) -> None:
    sys.path.insert(0, str(Path.cwd()))
    namespace = {"__name__": "page"}
    for block in blocks(page, "python"):
        if block.file is not None:
            Path(block.file).write_text(block.text)
            continue
        # So that a traceback shows the line of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
        exec(code, namespace)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
