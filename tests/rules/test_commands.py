"""Commands in the rules that look at a target."""

import msgspec
import pytest

from onbeat.model.credentials import masked, secrets_in_env
from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.queue import Queue
from onbeat.model.target import CommandTarget
from onbeat.rules.encryption import (
    decrypt_target,
    encrypt_target,
    has_plain_credentials,
    needs_decryption,
)
from onbeat.rules.faults import fault_key, fault_of
from onbeat.rules.origins import fields_under, with_credentials_of
from onbeat.rules.payloads import without_payload
from onbeat.rules.why import WaitFacts, reasons
from onbeat.testing.build import NOW, a_job, a_worker

BACKUP = CommandTarget(("/bin/backup", "--all"), {"DB_PASSWORD": "hunter22", "A": "b"}, stdin="in")
SHOWN = masked(BACKUP)
ENV = fields_under("target.http.")


def a_command(target: CommandTarget = BACKUP) -> Job:
    return msgspec.structs.replace(a_job(), target=target)


def test_secret_variables_are_hidden_and_come_back() -> None:
    assert isinstance(SHOWN, CommandTarget)
    assert SHOWN.env == {"DB_PASSWORD": "***", "A": "b"}
    assert with_credentials_of(BACKUP, SHOWN, ENV) == BACKUP
    assert with_credentials_of(None, BACKUP) == BACKUP


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (None, "nothing is"),
        (a_job().target, "nothing is"),
        (CommandTarget(("/bin/other",), BACKUP.env), "for another program"),
    ],
)
def test_a_hidden_variable_stays_with_its_program(before: CommandTarget, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        with_credentials_of(before, SHOWN, ENV)
    assert caught.value.field == "target.env.DB_PASSWORD"
    assert fields_under("").env == "env"


def test_secret_variables_are_encrypted_for_their_program() -> None:
    bound: list[str] = []

    def encrypt(text: str, bound_to: str) -> str:
        bound.append(bound_to)
        return f"onbeat-encrypted.v1.k.{text}"

    assert has_plain_credentials(BACKUP)
    assert not needs_decryption(BACKUP)
    stored = encrypt_target(BACKUP, encrypt)
    assert bound == ["command\n/bin/backup\nheader\ndb_password"]
    assert isinstance(stored, CommandTarget)
    assert stored.env["A"] == "b"
    assert needs_decryption(stored)
    assert decrypt_target(stored, lambda text, _: text.rpartition(".")[2]) == BACKUP


def test_secrets_are_found_by_line_the_longest_first() -> None:
    key = "-----BEGIN KEY-----\nabcdef\nghi\n"
    target = CommandTarget(("/bin/p",), {"TLS_SECRET": key, "TOKEN": "longer than the others"})
    assert secrets_in_env(target) == ("longer than the others", "-----BEGIN KEY-----", "abcdef")


def test_of_a_sensitive_command_its_program_is_left() -> None:
    job = msgspec.structs.replace(a_command(), sensitive=True)
    assert without_payload(job).target == CommandTarget(("/bin/backup",))


def test_faults_are_told_by_program() -> None:
    error = "/bin/backup ended with exit code 3\ndisk full"
    other = CommandTarget(("/bin/other",))
    assert fault_key(BACKUP, error) == fault_key(CommandTarget(("/bin/backup",)), error)
    assert fault_key(BACKUP, error) != fault_key(other, error)
    assert fault_of(BACKUP, error).title == "<path> ended with exit code #"


def test_why_names_the_setting_that_would_allow_the_program() -> None:
    facts = WaitFacts(
        job=a_command(),
        now=NOW,
        queue=Queue(name="default"),
        workers=[a_worker(lanes=("@command:/bin/other",))],
    )
    (reason,) = reasons(facts)
    assert reason.code == "unknown_task"
    assert reason.words == (
        "No live worker allows the program /bin/backup (setting commands.allow)."
    )
    able = msgspec.structs.replace(facts, workers=[a_worker(lanes=("@command:/bin/backup",))])
    assert [one.code for one in reasons(able)] == ["ready"]
