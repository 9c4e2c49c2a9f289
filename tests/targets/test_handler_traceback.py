"""The traceback that a failed job keeps."""

import ast

import pytest

from onbeat.targets.in_process import handler_traceback


def failed() -> ZeroDivisionError:
    try:
        _ = [1][0] / 0
    except ZeroDivisionError as error:
        return error
    raise AssertionError("the division failed")


def test_it_marks_the_part_of_the_line_that_failed() -> None:
    assert "~~~~~~~^~~" in handler_traceback(failed())


def test_it_is_told_without_marks_where_the_interpreter_cannot_parse_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.11 does so when garbage that logs a traceback is collected meanwhile."""

    def mismatch(*_: object, **__: object) -> ast.Module:
        raise SystemError("AST constructor recursion depth mismatch (before=9, after=10)")

    monkeypatch.setattr(ast, "parse", mismatch)
    text = handler_traceback(failed())
    assert "_ = [1][0] / 0" in text
    assert text.endswith("ZeroDivisionError: division by zero")
