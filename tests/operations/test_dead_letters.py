"""Dead letters: looked at, tried again, deleted."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Conflict, Malformed, NotFound, Unavailable
from onbeat.model.ids import DeadLetterId, Token
from onbeat.model.job import Job
from onbeat.model.page import JobFilter
from onbeat.operations.fence import fence_of
from onbeat.operations.results import settle_result
from onbeat.operations.submissions import submit
from onbeat.operations.tables.events import EVENT_LIST
from onbeat.operations.tables.failures import DEAD_DELETE, DEAD_LIST, DEAD_REPLAY, DEAD_SHOW
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.remote_work import JOB_CLAIM
from operations.harness import NOON, OperationsHarness

QUEUE = "onbeat.submit"
EXAMPLE = b'{"jsonrpc":"2.0","method":"submit:export","params":{"objectID":23}}'


class DeadLetterHarness(OperationsHarness):
    """An office whose known tasks can be changed."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()

        async def knows(task: str) -> bool:
            return task in self.tasks

        super().__init__(knows_task=knows)

    async def add_dead_letter(
        self, body: bytes = EXAMPLE, source: str = QUEUE, reason: str = "bad", **headers: Any
    ) -> str:
        letter = DeadLetter(
            id=DeadLetterId(self.context.fresh_id()),
            at=self.clock.at,
            source=source,
            reason=reason,
            body=body,
            headers=headers,
        )
        await self.store.add_dead_letters([letter])
        return letter.id

    async def dead_letters(self, **named: Any) -> list[dict[str, Any]]:
        return (await self.ask(DEAD_LIST, **named))["letters"]

    async def replay(self, id: str) -> dict[str, Any]:
        return await self.ask(DEAD_REPLAY, id=id)

    async def jobs(self) -> tuple[Job, ...]:
        return (await self.store.jobs(JobFilter(limit=100))).items


@pytest.fixture
def morgue() -> DeadLetterHarness:
    return DeadLetterHarness()


async def test_letters_are_listed_newest_first_page_by_page(morgue: DeadLetterHarness) -> None:
    ids = [await morgue.add_dead_letter(reason=f"r{n}") for n in range(5)]
    first = await morgue.ask(DEAD_LIST, limit="3")
    assert [letter["id"] for letter in first["letters"]] == ids[:1:-1]
    rest = await morgue.ask(DEAD_LIST, limit="3", cursor=first["cursor"])
    assert [letter["id"] for letter in rest["letters"]] == ids[1::-1]
    assert rest["cursor"] is None


async def test_letters_of_one_source_are_listed(morgue: DeadLetterHarness) -> None:
    await morgue.add_dead_letter(source="rpc")
    await morgue.add_dead_letter(source=QUEUE)
    assert [letter["source"] for letter in await morgue.dead_letters(source="rpc")] == ["rpc"]
    assert len(await morgue.dead_letters(source="")) == 2


async def test_a_list_shows_how_a_letter_begins(morgue: DeadLetterHarness) -> None:
    await morgue.add_dead_letter("ä".encode() * 300 + b"\xff")
    (letter,) = await morgue.dead_letters()
    assert (letter["bytes"], letter["preview"]) == (601, "ä" * 200)
    await morgue.add_dead_letter(b"\xff\x00")
    assert (await morgue.dead_letters())[0]["preview"] == "�\0"


async def test_a_letter_is_shown_whole(morgue: DeadLetterHarness) -> None:
    id = await morgue.add_dead_letter(EXAMPLE, reason="unknown", a="b")
    assert await morgue.ask(DEAD_SHOW, id=id) == {
        "id": id,
        "at": "2026-03-02T12:00:00Z",
        "source": QUEUE,
        "reason": "unknown",
        "headers": {"a": "b"},
        "bytes": len(EXAMPLE),
        "encoding": "text",
        "body": EXAMPLE.decode(),
    }


async def test_what_is_no_text_is_shown_in_base64(morgue: DeadLetterHarness) -> None:
    body = b"\xff\xfe{"
    shown = await morgue.ask(DEAD_SHOW, id=await morgue.add_dead_letter(body))
    assert shown["encoding"] == "base64"
    assert base64.b64decode(shown["body"]) == body


async def test_a_deleted_letter_is_gone(morgue: DeadLetterHarness) -> None:
    id = await morgue.add_dead_letter()
    assert await morgue.ask(DEAD_DELETE, id=id) == {"message": "Dead letter deleted."}
    for operation in (DEAD_DELETE, DEAD_SHOW, DEAD_REPLAY):
        with pytest.raises(NotFound):
            await morgue.ask(operation, id=id)


@pytest.mark.parametrize(
    "operation", [DEAD_SHOW, DEAD_DELETE, DEAD_REPLAY], ids=lambda one: one.name
)
async def test_a_bad_id_is_told(morgue: DeadLetterHarness, operation: Operation) -> None:
    with pytest.raises(Malformed, match="dead letter ID"):
        await morgue.ask(operation, id="seven")


@pytest.mark.parametrize("source", [QUEUE, "rpc"])
async def test_a_submission_goes_through_once_its_task_is_known(
    morgue: DeadLetterHarness, source: str
) -> None:
    id = await morgue.add_dead_letter(source=source)
    answer = await morgue.replay(id)
    assert answer["replayed"] is False
    assert "knows the task export" in answer["reason"]
    morgue.tasks.add("export")
    answer = await morgue.replay(answer["id"])
    (job,) = await morgue.jobs()
    assert answer == {"replayed": True, "id": answer["id"], "reason": None, "job_id": job.id}
    assert await morgue.dead_letters() == []


async def test_a_letter_that_does_not_go_through_is_kept_with_the_new_reason(
    morgue: DeadLetterHarness,
) -> None:
    id = await morgue.add_dead_letter(reason="an older one", a="b")
    answer = await morgue.replay(id)
    (letter,) = await morgue.dead_letters()
    assert (letter["id"], letter["reason"]) == (answer["id"], answer["reason"])
    assert letter["reason"] != "an older one"
    shown = await morgue.ask(DEAD_SHOW, id=letter["id"])
    assert shown["headers"] == {"a": "b", "onbeat-key": id}
    again = await morgue.replay(letter["id"])
    assert again["id"] == letter["id"]
    assert len(await morgue.dead_letters()) == 1


async def test_replaying_twice_makes_one_job(morgue: DeadLetterHarness) -> None:
    morgue.tasks.add("export")
    id = await morgue.add_dead_letter()
    (letter,) = await morgue.store.dead_letters_by_id([DeadLetterId(id)])
    first = await morgue.replay(id)
    await morgue.store.add_dead_letters([letter])
    assert (await morgue.replay(id))["job_id"] == first["job_id"]
    assert len(await morgue.jobs()) == 1


async def test_a_replayed_message_has_the_job_that_its_delivery_would_have(
    morgue: DeadLetterHarness,
) -> None:
    sent_at = NOON - timedelta(hours=1)
    await submit(morgue.context, EXAMPLE, source=QUEUE, key="m-1", sent_at=sent_at)
    morgue.tasks.add("export")
    (letter,) = await morgue.dead_letters()
    await morgue.replay(letter["id"])
    await submit(morgue.context, EXAMPLE, source=QUEUE, key="m-1", sent_at=sent_at)
    assert len(await morgue.jobs()) == 1


@pytest.mark.parametrize("body", [b"{", b"[]", b"[1]", b"7", b"\xff"])
async def test_what_could_not_be_read_still_cannot(morgue: DeadLetterHarness, body: bytes) -> None:
    assert (await morgue.replay(await morgue.add_dead_letter(body)))["replayed"] is False
    assert len(await morgue.dead_letters()) == 1


async def test_a_result_goes_through_once_it_counts(morgue: DeadLetterHarness) -> None:
    made = await morgue.ask(JOB_ENQUEUE, {"task": "export"})
    message = {"jsonrpc": "2.0", "id": made["id"], "result": {"n": 1, "attempt": 1}}
    token = (await fence_of(morgue.store)).seal(made["id"], Token(1))
    message["result"]["token"] = token
    id = await morgue.add_dead_letter(json.dumps(message).encode(), source="onbeat.results")
    answer = await morgue.replay(id)
    assert answer["replayed"] is False
    assert "waiting" in answer["reason"]
    await morgue.ask(JOB_CLAIM, {"worker": "w", "tasks": ["export"]})
    assert (await morgue.replay(answer["id"]))["job_id"] == made["id"]
    assert (await morgue.ask(JOB_SHOW, id=made["id"]))["result"] == {"n": 1}
    assert await morgue.dead_letters() == []


async def test_the_token_of_a_result_is_kept_with_it(morgue: DeadLetterHarness) -> None:
    made = await morgue.ask(JOB_ENQUEUE, {"task": "export"})
    message = {"jsonrpc": "2.0", "id": made["id"], "result": 1}
    body = json.dumps(message).encode()
    token = (await fence_of(morgue.store)).seal(made["id"], Token(1))
    id = await morgue.add_dead_letter(body, source="onbeat.results", **{"onbeat-token": token})
    await morgue.ask(JOB_CLAIM, {"worker": "w", "tasks": ["export"]})
    assert (await morgue.replay(id))["replayed"] is True


async def test_a_result_of_a_sensitive_job_is_never_shown(morgue: DeadLetterHarness) -> None:
    made = await morgue.ask(JOB_ENQUEUE, {"task": "export", "sensitive": True})
    await morgue.ask(JOB_CLAIM, {"worker": "w", "tasks": ["export"]})
    result = {"jsonrpc": "2.0", "id": made["id"], "result": {"code": 4711}}
    await settle_result(morgue.context, json.dumps(result).encode(), token="forged")
    unknown = {"jsonrpc": "2.0", "id": made["id"], "error": {"code": -32601, "message": "4711"}}
    token = (await fence_of(morgue.store)).seal(made["id"], Token(1))
    await settle_result(morgue.context, json.dumps(unknown).encode(), token=token)
    letters = await morgue.dead_letters()
    assert [letter["preview"] for letter in letters] == ["…", "…"]
    for letter in letters:
        shown = json.dumps(await morgue.ask(DEAD_SHOW, id=letter["id"]))
        assert "4711" not in shown


async def test_a_result_without_a_token_never_goes_through(morgue: DeadLetterHarness) -> None:
    made = await morgue.ask(JOB_ENQUEUE, {"task": "export"})
    await morgue.ask(JOB_CLAIM, {"worker": "w", "tasks": ["export"]})
    message = json.dumps({"jsonrpc": "2.0", "id": made["id"], "result": {}}).encode()
    await settle_result(morgue.context, message, token=None)
    (letter,) = await morgue.dead_letters()
    answer = await morgue.replay(letter["id"])
    assert (answer["replayed"], answer["id"]) == (False, letter["id"])


async def test_an_announcement_can_be_sent_again_only_by_its_sender(
    morgue: DeadLetterHarness,
) -> None:
    id = await morgue.add_dead_letter(source="onbeat.work.default")
    with pytest.raises(Conflict, match="only by its sender"):
        await morgue.replay(id)
    assert len(await morgue.dead_letters()) == 1


async def test_while_the_store_is_away_a_letter_stays_as_it_is(morgue: DeadLetterHarness) -> None:
    morgue.tasks.add("export")
    id = await morgue.add_dead_letter(reason="as it was")

    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable

    morgue.store.enqueue = away
    with pytest.raises(Unavailable):
        await morgue.replay(id)
    assert [letter["reason"] for letter in await morgue.dead_letters()] == ["as it was"]


async def test_a_letter_is_shown_without_tokens_and_credentials(morgue: DeadLetterHarness) -> None:
    body = b'{"result":1,"id":"x","token" : "7.SEALSECRET"}'
    headers = {"onbeat-token": "7.SEALSECRET", "Authorization": "Bearer SECRET", "a": "b"}
    id = await morgue.add_dead_letter(body, **headers)
    shown = await morgue.ask(DEAD_SHOW, id=id)
    assert shown["headers"] == {"onbeat-token": "***", "Authorization": "***", "a": "b"}
    assert shown["body"] == body.decode().replace("7.SEALSECRET", "***")
    assert shown["bytes"] == len(body)
    assert "SECRET" not in json.dumps(await morgue.dead_letters())
    (kept,) = await morgue.store.dead_letters_by_id([DeadLetterId(id)])
    assert (kept.body, kept.headers) == (body, headers)


async def test_an_event_is_stored_by_its_replay() -> None:
    office = DeadLetterHarness()
    body = b'{"type": "paid", "data": 1}'
    id = await office.add_dead_letter(body, "onbeat.events", **{"onbeat-key": "message-1"})
    answer = await office.ask(DEAD_REPLAY, id=id)
    assert (answer["replayed"], answer.get("job_id")) == (True, None)
    (event,) = (await office.ask(EVENT_LIST))["events"]
    assert (event["id"], event["type"], event["data"]) == ("message-1", "paid", 1)
    assert await office.dead_letters() == []


async def test_a_wrong_event_stays_a_dead_letter() -> None:
    office = DeadLetterHarness()
    id = await office.add_dead_letter(b'{"type": 7}', "onbeat.events")
    answer = await office.ask(DEAD_REPLAY, id=id)
    assert (answer["replayed"], answer["reason"]) == (
        False,
        "type must be a string, not an integer",
    )
