"""Keys of submissions that their params make, and params that must be there."""

from typing import Any

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.model.remote_task import RemoteTask
from onbeat.rules.submission_keys import check_params, key_of, params_in


def a_task(**fields: Any) -> RemoteTask:
    return RemoteTask(name="export", **fields)


@pytest.mark.parametrize(
    ("template", "params", "key"),
    [
        ("export:{objectID}", {"objectID": 23}, "export:23"),
        ("{a}-{b}-{a}", {"a": "x", "b": True}, "x-true-x"),
        ("always", {}, "always"),
        ("{a}", {"a": "{b}", "b": 1}, "{b}"),
        ("{größe}", {"größe": -1}, "-1"),
        ("{a}", {"a": "x" * KEY_CHARS_MAX}, "x" * KEY_CHARS_MAX),
        (None, {}, None),
    ],
)
def test_a_key_is_made_of_params(
    template: str | None, params: dict[str, object], key: str | None
) -> None:
    assert key_of(a_task(key=template), params) == key


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (1.5, "params.a"),
        ([1], "params.a"),
        ({}, "params.a"),
        ("", "params"),
        (" ", "params"),
        ("line\nline", "params"),
        ("x" * (KEY_CHARS_MAX + 1), "params"),
    ],
)
def test_a_value_that_cannot_be_in_a_key_is_named(value: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        key_of(a_task(key="{a}"), {"a": value})
    assert refused.value.field == field
    assert field in str(refused.value)


@pytest.mark.parametrize("template", ["{", "}", "{}", "{a.b}", "{a!r}", "{a:3}", "{{a}}", "{0}"])
def test_a_template_has_nothing_but_names_in_braces(template: str) -> None:
    with pytest.raises(Invalid, match="braces"):
        params_in(template, "key")


@pytest.mark.parametrize("params", [None, {}, {"b": 1}, {"a": None, "b": 1}])
def test_params_that_are_required_or_in_the_key_must_be_there(
    params: dict[str, object] | None,
) -> None:
    for task in (a_task(requires=("a",)), a_task(key="{a}")):
        with pytest.raises(Invalid) as refused:
            check_params(task, params)
        assert refused.value.field == "params.a"
        check_params(task, {"a": 0})
