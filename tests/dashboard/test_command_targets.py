"""Commands in lists, and in the form of a schedule."""

from onbeat.dashboard.pages.jobs import title_of
from onbeat.dashboard.target_forms import target_of, target_texts, without_secrets
from onbeat.model.target import CommandTarget
from onbeat.wire.targets import target_answer

BACKUP = target_answer(CommandTarget(("/bin/backup", "--all"), {"TOKEN": "x", "A": "b"}))


def test_a_command_is_named_by_its_program() -> None:
    assert title_of(BACKUP) == "command /bin/backup"


def test_a_command_is_edited_as_json_that_keeps_its_secrets() -> None:
    texts = target_texts(BACKUP)
    assert texts["target_kind"] == "json"
    assert target_of(texts) == {
        "command": ["/bin/backup", "--all"],
        "env": {"TOKEN": "***", "A": "b"},
    }


def test_a_copy_leaves_out_what_is_hidden() -> None:
    kept, is_partial = without_secrets(BACKUP)
    assert (kept.command, kept.env, is_partial) == (("/bin/backup", "--all"), {"A": "b"}, True)
