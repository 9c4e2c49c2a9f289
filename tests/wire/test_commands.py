"""Commands in requests and answers."""

from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import COMMAND_ARG_BYTES_MAX, COMMAND_ARGS_MAX, COMMAND_ENV_MAX
from onbeat.model.target import CommandTarget, lane_of
from onbeat.wire.commands import read_programs
from onbeat.wire.targets import TargetBody, read_target, target_answer

WHOLE = {"command": ["/bin/backup", "--all"], "env": {"A": " b "}, "cwd": "/srv", "stdin": "in"}


def read(body: dict[str, Any]) -> CommandTarget:
    target = read_target(msgspec.convert(body, TargetBody), "target")
    assert isinstance(target, CommandTarget)
    return target


@pytest.mark.parametrize("body", [WHOLE, {"command": ["/bin/true"]}])
def test_an_answer_has_the_form_of_the_request(body: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(target_answer(read(body)))) == body


def test_a_command_has_the_lane_of_its_program() -> None:
    target = read(WHOLE)
    assert target == CommandTarget(("/bin/backup", "--all"), {"A": " b "}, "/srv", "in")
    assert lane_of(target) == "@command:/bin/backup"


def test_empty_parts_are_none() -> None:
    assert read({"command": ["/bin/true"], "env": None, "cwd": "", "stdin": ""}) == CommandTarget(
        ("/bin/true",)
    )


def test_a_secret_variable_is_hidden_in_answers() -> None:
    target = CommandTarget(("/bin/true",), {"DB_PASSWORD": "hunter22", "A": "b"})
    assert target_answer(target).env == {"DB_PASSWORD": "***", "A": "b"}


WRONG: list[tuple[dict[str, Any], type[Invalid], str, str]] = [
    ({"command": []}, Invalid, "target.command", "needs the path of a program"),
    ({"env": {"A": "b"}}, Invalid, "target.command", "needs the path of a program"),
    ({"command": ["backup"]}, Invalid, "target.command[0]", "absolute path"),
    ({"command": ["/"]}, Invalid, "target.command[0]", "absolute path"),
    ({"command": ["//bin/true"]}, Invalid, "target.command[0]", "absolute path"),
    ({"command": ["/bin/../true"]}, Invalid, "target.command[0]", "absolute path"),
    ({"command": ["/bin/true/"]}, Invalid, "target.command[0]", "absolute path"),
    ({"command": ["/bin/\n"]}, Invalid, "target.command[0]", "control characters"),
    ({"command": ["/bin/p", "a\0b"]}, Invalid, "target.command[1]", "NUL"),
    ({"command": ["/bin/p", "\ud800"]}, Invalid, "target.command[1]", "UTF-8"),
    (
        {"command": ["/bin/p", *["a"] * COMMAND_ARGS_MAX]},
        TooLarge,
        "target.command",
        "at most 1000 items",
    ),
    (
        {"command": ["/bin/p", "ä" * (COMMAND_ARG_BYTES_MAX // 2 + 1)]},
        TooLarge,
        "target.command[1]",
        "send more as stdin",
    ),
    (
        {"command": ["/bin/p", *["a" * COMMAND_ARG_BYTES_MAX] * 8]},
        TooLarge,
        "target.command",
        "with env and stdin",
    ),
    ({"command": ["/bin/p"], "cwd": "srv"}, Invalid, "target.cwd", "absolute path"),
    ({"command": ["/bin/p"], "stdin": "\0"}, Invalid, "target.stdin", "NUL"),
    (
        {"command": ["/bin/p"], "env": {f"V{n}": "" for n in range(COMMAND_ENV_MAX + 1)}},
        TooLarge,
        "target.env",
        "at most 100 variables",
    ),
    ({"command": ["/bin/p"], "env": {"1A": ""}}, Invalid, "target.env", "a digit"),
    ({"command": ["/bin/p"], "env": {"ONBEAT_JOB_ID": ""}}, Invalid, "target.env", "own"),
    ({"command": ["/bin/p"], "env": {"LD_PRELOAD": ""}}, Invalid, "target.env", "other code"),
    ({"command": ["/bin/p"], "env": {"PATH": "/tmp"}}, Invalid, "target.env", "other code"),
    ({"command": ["/bin/p"], "env": {"A": "() { x"}}, Invalid, "target.env.A", "function"),
    ({"command": ["/bin/p"], "env": {"A": "a" * 8_193}}, TooLarge, "target.env.A", "8192"),
    (
        {"command": ["/bin/p"], "env": {"A": "onbeat-encrypted.v1.a.b"}},
        Invalid,
        "target.env.A",
        "encrypted",
    ),
    ({"command": ["/bin/p"], "task": "t"}, Invalid, "target", "of one kind"),
    ({"command": ["/bin/p"], "args": []}, Invalid, "target", "of one kind"),
]


@pytest.mark.parametrize(("body", "kind", "field", "words"), WRONG)
def test_what_cannot_be_run_is_refused_by_its_field(
    body: dict[str, Any], kind: type[Invalid], field: str, words: str
) -> None:
    given: dict[str, Any] = {**body}
    if "args" in body:
        given["args"] = msgspec.Raw(b"[]")
    if "command" in body:
        given["command"] = tuple(body["command"])
    with pytest.raises(kind, match=words) as caught:
        read_target(TargetBody(**given), "target")
    assert caught.value.field == field


def test_programs_are_allowed_once_and_within_a_bound() -> None:
    assert read_programs(("/bin/a", "/bin/b", "/bin/a"), "allow") == ("/bin/a", "/bin/b")
    with pytest.raises(Invalid, match="at most 100 programs"):
        read_programs(tuple(f"/bin/{n}" for n in range(101)), "allow")
