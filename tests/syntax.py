"""Python source as a syntax tree, for tests that read the project's own text."""

import ast
import gc


def syntax_of(text: str, name: str = "<unknown>") -> ast.Module:
    """The tree of the source that errors call `name`.

    Python 3.11 builds a tree wrongly, and says `SystemError: AST constructor recursion depth
    mismatch`, when the collector finalizes an object meanwhile whose end parses source itself, as
    a logged traceback does (gh-106905). So nothing is collected meanwhile.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, name)
    finally:
        if collecting:
            gc.enable()
