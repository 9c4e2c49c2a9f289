"""Encryption at rest, as a program sees it: what lies in its store, and what its tasks are given."""

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import UNSET

from app.test_lost_answers import served
from conditions import eventually
from onbeat import Invalid, Misconfigured, Onbeat, Options, every, http
from onbeat.api.asgi import build_api
from onbeat.model.job import JobState
from onbeat.targets.http_options import HttpOptions

CANARY = "CANARY"
URL = f"http://127.0.0.1:1/?token={CANARY}Q"
SIGNING = "whsec_" + b64encode(b"CANARYSIGNING" * 2).decode()


def a_key(id: Any) -> Any:
    return f"{id}:{b64encode(os.urandom(32)).decode()}"


OLD, NEW = a_key("old"), a_key("new")


class Program:
    """A program on one SQLite file, with the keys that it is given."""

    def __init__(self, folder: Any, *keys: Any, **options: Any) -> None:
        self.folder = folder
        self.paid: list[tuple[str, int]] = []
        self.beat = Onbeat(
            f"sqlite:///{folder}/onbeat.db",
            options=Options(
                encryption_keys=keys, http=HttpOptions(timeout=timedelta(seconds=2)), **options
            ),
        )

        @self.beat.task("pay", encrypted=True)
        async def pay(card: str, *, cents: int) -> int:
            self.paid.append((card, cents))
            return cents

        self.pay = pay

    async def __aenter__(self) -> Any:
        await self.beat.backend.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.beat.aclose()

    def files_with(self, word: Any = CANARY) -> Any:
        """The files of the store in which the word stands: database, log and shared memory."""
        files = [path for path in self.folder.iterdir() if path.name.startswith("onbeat.db")]
        assert len(files) >= 2
        return [path.name for path in files if word.encode() in path.read_bytes()]

    async def rotate(self) -> Any:
        rotated = await self.beat.secrets.arotate()
        return rotated.changed, rotated.unreadable

    async def ended(self, id: Any) -> Any:
        async def is_ended() -> Any:
            return (await self.beat.jobs.aget(id)).state == JobState.SUCCEEDED

        await eventually(is_ended, "the job has succeeded")
        return await self.beat.jobs.aget(id)


async def send_all(program: Any) -> Any:
    """A schedule and a job of each kind, each with canaries; the job of the task."""
    beat, pay = program.beat, program.pay
    callback = http("POST", URL, headers={"Authorization": f"Bearer {CANARY}H"}, secret=SIGNING)
    await beat.schedules.aput("pay", every("1h"), pay.call(f"{CANARY}S", cents=1))
    await beat.schedules.aput("call", every("1h"), callback)
    await beat.asend(callback)
    return await pay.asend(f"{CANARY}J", cents=2)


async def test_no_file_of_the_store_holds_a_credential(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        job = await send_all(program)
        assert not program.files_with()
        assert not program.files_with(SIGNING)
        async with program.beat:
            await program.ended(job.id)
            assert program.paid == [(f"{CANARY}J", 2)]
            assert not program.files_with()


async def test_without_a_key_they_are_there_to_be_found(tmp_path: Path) -> None:
    """So that the test above cannot pass by looking in the wrong place."""
    async with Program(tmp_path) as program:
        await program.beat.asend(http("POST", URL))
        assert program.files_with()


async def test_arguments_to_be_encrypted_need_a_key(tmp_path: Path) -> None:
    async with Program(tmp_path) as program:
        with pytest.raises(Invalid, match="onbeat secrets new-key"):
            await program.pay.asend("card", cents=1)
        with pytest.raises(Invalid, match="onbeat secrets new-key"):
            await program.beat.schedules.aput("s", every("1h"), program.pay.call("c", cents=1))
        assert not list(await program.beat.jobs.alist())


@pytest.mark.parametrize("keys", [("k",), ("k:short",), (OLD, OLD)])
async def test_a_key_that_cannot_be_right_is_refused_by_its_setting(
    tmp_path: Path, keys: Any
) -> None:
    async with Program(tmp_path, *keys) as program:
        with pytest.raises(Misconfigured, match=r"secrets\.keys"):
            await program.pay.asend("card", cents=1)


async def test_what_is_put_again_unchanged_is_no_edit(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        await send_all(program)
        before = await program.beat.backend.store.schedule_by_key("call")
        paid = await program.beat.backend.store.schedule_by_key("pay")
        await send_all(program)
        assert await program.beat.backend.store.schedule_by_key("call") == before
        assert await program.beat.backend.store.schedule_by_key("pay") == paid


async def test_a_key_set_later_encrypts_at_the_next_put(tmp_path: Path) -> None:
    async with Program(tmp_path) as program:
        await program.beat.schedules.aput("call", every("1h"), http("POST", URL))
        before = await program.beat.backend.store.schedule_by_key("call")
    async with Program(tmp_path, OLD) as program:
        await program.beat.schedules.aput("call", every("1h"), http("POST", URL))
        after = await program.beat.backend.store.schedule_by_key("call")
        assert CANARY in before.target.url
        assert CANARY not in after.target.url
        assert after.version == before.version + 1


async def test_without_its_key_a_job_is_put_off_and_costs_no_attempt(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        job = await program.pay.asend("card", cents=1)
    keyless = Program(tmp_path, NEW)

    async def is_put_off() -> Any:
        return (await keyless.beat.jobs.aget(job.id)).reason is not None

    async with keyless.beat:
        await eventually(is_put_off, "the job is put off")
        shown = await keyless.beat.jobs.aget(job.id)
    assert shown.state == JobState.WAITING
    assert shown.attempt == 0
    assert "'old' is not in `secrets.keys`" in shown.reason
    assert keyless.paid == []
    async with Program(tmp_path, NEW, OLD) as program:
        with program.beat.testing("2030-01-01T00:00:00Z"):
            pass
        again = await program.pay.asend("other", cents=2)
        async with program.beat:
            await program.ended(again.id)


async def test_rotation_leaves_nothing_under_the_former_key(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        job = await send_all(program)
        done = await program.pay.asend("done", cents=3)
        async with program.beat:
            await program.ended(done.id)
            await program.ended(job.id)
        waiting = await program.pay.options(delay=3600).asend(f"{CANARY}W", cents=4)
    async with Program(tmp_path, NEW, OLD) as program:
        changed, unreadable = await program.rotate()
        assert (changed > 5, unreadable) == (True, 0)
        assert await program.rotate() == (0, 0)
    async with Program(tmp_path, NEW) as program:
        assert await program.rotate() == (0, 0)
        for export_job in await program.beat.backend.store.export_jobs(None, 100):
            assert "encrypted.v1.old" not in str(export_job.job.target) + repr(
                bytes(args_of(export_job.job))
            )
        assert (await program.beat.jobs.aget(waiting.id)).state == JobState.WAITING
    assert not Program(tmp_path, NEW).files_with()


def args_of(job: Any) -> Any:
    return getattr(job.target, "args", b"")


async def test_rotation_encrypts_what_was_stored_without_a_key(tmp_path: Path) -> None:
    async with Program(tmp_path) as program:
        await program.beat.schedules.aput("call", every("1h"), http("POST", URL, secret=SIGNING))
        sent = await program.beat.asend(http("POST", URL))
    async with Program(tmp_path, NEW) as program:
        changed, unreadable = await program.rotate()
        assert unreadable == 0
        assert changed >= 2
        stored = await program.beat.backend.store.job(sent.id)
        assert CANARY not in stored.target.url
        assert (await program.beat.jobs.aget(sent.id)).target.http.url.endswith("token=***")


async def test_rotation_tells_of_what_it_cannot_read(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        await program.pay.asend("card", cents=1)
    async with Program(tmp_path, NEW) as program:
        assert await program.rotate() == (0, 1)


async def test_rotation_needs_a_key(tmp_path: Path) -> None:
    async with Program(tmp_path) as program:
        with pytest.raises(Invalid, match="onbeat secrets new-key"):
            await program.rotate()


async def test_a_job_in_the_callers_transaction_is_encrypted_as_well(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        connection = apsw.Connection(str(tmp_path / "onbeat.db"))
        connection.set_busy_timeout(20_000)
        connection.execute("BEGIN")
        program.pay.in_transaction(connection).send(f"{CANARY}T", cents=1)
        connection.execute("COMMIT")
        connection.close()
        assert not program.files_with()
        async with program.beat:
            (job,) = await program.beat.jobs.alist()
            await program.ended(job.id)
        assert program.paid == [(f"{CANARY}T", 1)]


async def test_calls_that_a_task_yields_are_encrypted_as_well(tmp_path: Path) -> None:
    program = Program(tmp_path, OLD)

    @program.beat.task("all", encrypted=True)
    async def pay_all(card: str) -> AsyncIterator[Any]:
        for cents in (1, 2):
            yield program.pay.call(card, cents=cents)

    async with program.beat:
        await pay_all.asend(f"{CANARY}F")
        await eventually(lambda: len(program.paid) == 2, "both are paid")
        assert not program.files_with()


async def test_under_a_virtual_clock_tasks_are_given_their_arguments(tmp_path: Path) -> None:
    program = Program(tmp_path, OLD)
    async with program.beat.testing("2030-01-01T00:00:00Z") as trial:
        await program.beat.schedules.aput("s", every("1h"), program.pay.call("card", cents=1))
        await trial.aadvance("3h")
    assert len(program.paid) == 3


async def test_a_service_encrypts_what_a_program_elsewhere_sends(tmp_path: Path) -> None:
    async with Program(tmp_path, OLD) as program:
        async with served(build_api(program.beat.backend.context)) as port:
            elsewhere = Onbeat(f"http://127.0.0.1:{port}")

            @elsewhere.task("pay", encrypted=True)
            async def pay(card: str, *, cents: int) -> int:
                raise AssertionError("runs in the service")

            sent = await pay.asend(f"{CANARY}R", cents=5)
            await elsewhere.schedules.aput("s", every("1h"), pay.call(f"{CANARY}R", cents=6))
            shown = await elsewhere.jobs.aget(sent.id)
            assert shown.target.args is not UNSET
            assert shown.target.args == ["***"]
            assert shown.target.encrypted is True
        assert not program.files_with()
        async with program.beat:
            await program.ended(sent.id)
        assert (f"{CANARY}R", 5) in program.paid
