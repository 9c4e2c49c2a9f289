"""Errors on the wire, and the errors that clients make of them again."""

import pytest

from onbeat.model.errors import OnbeatError, TooCostly
from onbeat.wire.errors import TABLE, UNEXPECTED, Problem, error_of, problem


@pytest.mark.parametrize("kind", [kind for kind, _ in TABLE])
def test_a_client_raises_the_error_that_the_service_raised(kind: type[OnbeatError]) -> None:
    raised = error_of(problem(kind("it is so")))
    assert type(raised) is kind
    assert str(raised) == "it is so"


def test_an_invalid_field_keeps_its_name() -> None:
    raised = error_of(problem(TooCostly(1_000)))
    assert getattr(raised, "field", None) == "recurrence"
    assert "more than 1,000 steps" in str(raised)


def test_an_error_of_a_newer_service_is_an_error_all_the_same() -> None:
    raised = error_of(Problem(code="teapot", message="short and stout"))
    assert (type(raised), str(raised)) == (OnbeatError, "short and stout")


def test_an_unexpected_error_tells_nothing() -> None:
    assert problem(KeyError("a secret")) == UNEXPECTED
