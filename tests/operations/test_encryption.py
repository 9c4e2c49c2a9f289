"""Encryption at rest through operations: what is stored, shown, edited, given to workers, rotated."""

from base64 import b64encode

import msgspec
import pytest

from onbeat.model.credentials import HIDDEN_ARGS
from onbeat.model.errors import Conflict, Invalid, Malformed
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import REENCRYPT_MAX
from onbeat.model.target import HttpTarget
from onbeat.operations.submissions import Origin, add_dead_letter
from onbeat.operations.tables.administration import SECRETS_ROTATE
from onbeat.operations.tables.failures import DEAD_LIST, DEAD_REPLAY, DEAD_SHOW
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW
from onbeat.operations.tables.remote_work import JOB_CLAIM, JOB_START
from onbeat.operations.tables.schedules import (
    SCHEDULE_CREATE,
    SCHEDULE_PUT,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
)
from onbeat.rules.encryption import KEY_BYTES, needs_decryption, read_keys
from onbeat.rules.urls import checked_secret
from onbeat.targets.encryption import AesGcmCipher
from onbeat.wire.broker_messages import SUBMIT
from operations.harness import OperationsHarness

SIGNING = checked_secret("whsec_" + "A" * 32)
HTTP = {
    "url": "https://hooks.example.org/in?token=QUERYSECRET",
    "headers": {"Authorization": "HEADERSECRET"},
    "secret": SIGNING,
}
TASK = {"task": "export", "args": [1], "kwargs": {"card": "ARGSECRET"}, "encrypted": True}
FOREIGN = "0190a0b0-0000-7000-8000-000000000001"
CLAIM = {"worker": "exporter-1", "tasks": ["export"]}


def a_cipher(*ids: str) -> AesGcmCipher:
    texts = [f"{id}:{b64encode(id.encode().ljust(KEY_BYTES, b'-')).decode()}" for id in ids]
    return AesGcmCipher(read_keys(texts))


@pytest.fixture
def office():
    return OperationsHarness(cipher=a_cipher("k1"), connections=frozenset({"bus"}))


def with_keys(office: OperationsHarness, *ids: str) -> OperationsHarness:
    """Another process on the same store, with other keys."""
    other = OperationsHarness(office.store, cipher=a_cipher(*ids), connections=frozenset({"bus"}))
    other.clock = office.clock
    other.context = msgspec.structs.replace(other.context, clock=office.clock)
    return other


async def stored(office, id):
    job = await office.store.job(id)
    return job.target if job else (await office.store.schedule(id)).target


def spelled(target) -> str:
    return msgspec.json.encode(target).decode()


@pytest.mark.parametrize("target", [{"http": HTTP}, TASK], ids=["http", "task"])
async def test_jobs_and_schedules_are_stored_encrypted(office, target):
    job = (await office.ask(JOB_ENQUEUE, {"target": target}))["id"]
    body = {"name": "s", "every": "1h", "target": target}
    schedule = (await office.ask(SCHEDULE_CREATE, body))["id"]
    for id in (job, schedule):
        assert needs_decryption(await stored(office, id))
        assert "SECRET" not in spelled(await stored(office, id))
        assert SIGNING not in spelled(await stored(office, id))


async def test_an_answer_hides_arguments_and_says_why(office):
    id = (await office.ask(JOB_ENQUEUE, {"target": TASK}))["id"]
    shown = (await office.ask(JOB_SHOW, id=id))["target"]
    assert shown == {"task": "export", "args": ["***"], "kwargs": {}, "encrypted": True}


async def test_an_answer_sent_back_keeps_what_is_stored(office):
    body = {"name": "s", "key": "s", "every": "1h", "target": TASK}
    id = (await office.ask(SCHEDULE_CREATE, body))["id"]
    before = await office.store.schedule(id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    await office.ask(SCHEDULE_UPDATE, {"target": shown["target"], "name": "t"}, id=id)
    assert await stored(office, id) == before.target
    put = await office.ask(SCHEDULE_PUT, body | {"name": "t"}, key="s")
    assert put["changed"] is False


async def test_hidden_arguments_are_taken_from_nowhere_else(office):
    hidden = TASK | {"args": ["***"], "kwargs": {}}
    with pytest.raises(Invalid, match="nothing is"):
        await office.ask(JOB_ENQUEUE, {"target": hidden})
    id = (await office.ask(SCHEDULE_CREATE, {"name": "s", "every": "1h", "target": TASK}))["id"]
    with pytest.raises(Invalid, match="another task"):
        await office.ask(SCHEDULE_UPDATE, {"target": hidden | {"task": "other"}}, id=id)
    # Not marked, they are arguments like any others.
    plain = {"task": "export", "args": ["***"]}
    job = (await office.ask(JOB_ENQUEUE, {"target": plain}))["id"]
    assert (await stored(office, job)).args == HIDDEN_ARGS


async def test_arguments_become_readable_again_when_they_are_given_without_the_mark(office):
    id = (await office.ask(SCHEDULE_CREATE, {"name": "s", "every": "1h", "target": TASK}))["id"]
    await office.ask(SCHEDULE_UPDATE, {"target": {"task": "export", "args": [2]}}, id=id)
    assert bytes((await stored(office, id)).args) == b"[2]"


async def test_the_mark_needs_a_key():
    office = OperationsHarness()
    with pytest.raises(Invalid, match=r"secrets\.keys") as refused:
        await office.ask(JOB_ENQUEUE, {"target": TASK})
    assert refused.value.field == "target.encrypted"
    assert (await office.ask(JOB_ENQUEUE, {"target": {"http": HTTP}}))["id"]


async def test_a_worker_elsewhere_is_given_the_arguments(office):
    await office.ask(JOB_ENQUEUE, {"target": TASK})
    (given,) = (await office.ask(JOB_CLAIM, CLAIM))["jobs"]
    assert given["params"] == {"card": "ARGSECRET", "args": [1], "attempt": 1}
    again = await office.ask(JOB_START, {"token": given["token"]}, id=given["id"])
    assert again["params"] == given["params"]


async def test_what_cannot_be_decrypted_is_put_off_for_a_worker_elsewhere(office):
    secret = (await office.ask(JOB_ENQUEUE, {"target": TASK}))["id"]
    plain = (await office.ask(JOB_ENQUEUE, {"task": "export"}))["id"]
    other = with_keys(office, "k2")
    given = (await other.ask(JOB_CLAIM, CLAIM | {"limit": 5}))["jobs"]
    assert [job["id"] for job in given] == [plain]
    job = await office.store.job(secret)
    assert (job.state, job.attempt) == (JobState.WAITING, 0)
    assert "'k1' is not in `secrets.keys`" in (job.reason or "")


async def rotate(office, limit=REENCRYPT_MAX):
    cursor, total = None, {"scanned": 0, "changed": 0, "unreadable": 0}
    while True:
        answer = await office.ask(SECRETS_ROTATE, {"cursor": cursor, "limit": limit})
        for name in total:
            total[name] += answer[name]
        cursor = answer["cursor"]
        if cursor is None:
            return total


@pytest.mark.parametrize("limit", [1, 2, REENCRYPT_MAX])
async def test_rotation_goes_through_everything_in_parts(office, limit):
    ids = [(await office.ask(JOB_ENQUEUE, {"target": TASK}))["id"] for _ in range(3)]
    ids.append((await office.ask(JOB_ENQUEUE, {"target": {"http": HTTP}}))["id"])
    body = {"name": "s", "every": "1h", "target": {"http": HTTP}}
    ids.append((await office.ask(SCHEDULE_CREATE, body))["id"])
    plain = (await office.ask(JOB_ENQUEUE, {"task": "export"}))["id"]
    both = with_keys(office, "k2", "k1")
    total = await rotate(both, limit)
    assert total["changed"] >= len(ids)
    assert total["unreadable"] == 0
    for id in ids:
        assert "v1.k1." not in spelled(await stored(office, id))
        assert "v1.k2." in spelled(await stored(office, id))
    assert not needs_decryption(await stored(office, plain))
    assert (await rotate(both, limit))["changed"] == 0


async def test_rotation_counts_a_text_of_another_form_as_unreadable(office):
    target = HttpTarget("https://example.org/", headers={"Cookie": "onbeat-encrypted.v1.?"})
    job = Job(id=JobId(FOREIGN), target=target, created_at=office.clock.at, due_at=office.clock.at)
    await office.store.enqueue([job])
    assert await rotate(office) == {"scanned": 1, "changed": 0, "unreadable": 1}
    assert await stored(office, FOREIGN) == target


@pytest.mark.parametrize(
    "cursor", ["", "x", "schedule", "job", "job:x", "schedule:x", "dead:", "job:" + "1" * 80]
)
async def test_another_cursor_is_refused(office, cursor):
    if cursor in {"schedule", "job"}:  # as if nothing had gone before
        await office.ask(SECRETS_ROTATE, {"cursor": cursor})
        return
    with pytest.raises(Malformed):
        await office.ask(SECRETS_ROTATE, {"cursor": cursor})


async def test_a_dead_letter_is_stored_encrypted_and_shown_in_clear(office):
    headers = {"authorization": "HEADERSECRET", "plain": "seen"}
    origin = Origin(source=SUBMIT, key=None, headers=headers)
    await add_dead_letter(office.context, b'{"card":"BODYSECRET\xff"', origin, Malformed("broken"))
    (letter,) = await office.store.dead_letters(None, 10, None)
    assert b"SECRET" not in letter.body
    assert "HEADERSECRET" not in letter.headers.values()
    assert letter.headers["plain"] == "seen"
    (shown,) = (await office.ask(DEAD_LIST))["letters"]
    assert "BODYSECRET" in shown["preview"]
    detail = await office.ask(DEAD_SHOW, id=letter.id)
    assert detail["encoding"] == "base64"
    answer = await office.ask(DEAD_REPLAY, id=letter.id)
    assert answer["replayed"] is False


async def test_a_dead_letter_without_its_key_is_shown_without_its_body(office):
    origin = Origin(source=SUBMIT, key=None, headers={})
    await add_dead_letter(office.context, b"BODYSECRET", origin, Malformed("broken"))
    other = with_keys(office, "k2")
    (shown,) = (await other.ask(DEAD_LIST))["letters"]
    assert shown["preview"] == "***"
    with pytest.raises(Conflict, match="'k1'"):
        await other.ask(DEAD_REPLAY, id=shown["id"])
    assert len(await office.store.dead_letters(None, 10, None)) == 1
