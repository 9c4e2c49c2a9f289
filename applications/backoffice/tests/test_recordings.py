"""Recordings on their way from a server of ARI to S3, as real as they are here: HTTP, moto, MariaDB."""

import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

import mover
from backoffice import recordings
from backoffice.database import Database
from backoffice.recordings import RELOCATION_ATTEMPTS_MAX, add_recordings
from backoffice.recordings.ari import (
    NAME_CHARS_MAX,
    AriConfig,
    RefusedError,
    checked_name,
)
from backoffice.recordings.bucket import client_for
from backoffice.recordings.trim import trim
from backoffice.settings import SettingsApi
from backoffice.tasks import RecordingTask
from onbeat import JobFailed, Onbeat, Retry
from outside import (
    BUCKET,
    PASSWORD,
    PATIENCE,
    SECRETS,
    TOKEN,
    USER,
    AriServer,
    SettingsServer,
    Storage,
    eventually,
    storage,
    tone,
)
from world import World

AT = datetime(2026, 10, 20, 9, tzinfo=UTC)
SOUND = tone((4_000, 0), (2_000, 9_000), (4_000, 0))


@pytest.fixture(scope="module")
def whole_storage() -> Iterator[Storage]:
    with storage() as result:
        yield result


@pytest.fixture
def s3(whole_storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Without objects; clients find it as they find Amazon."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", whole_storage.url)
    client_for.cache_clear()
    whole_storage.empty()
    return whole_storage


@pytest.fixture
def asterisk() -> Iterator[AriServer]:
    with AriServer() as result:
        yield result


@pytest.fixture
def provider() -> Iterator[SettingsServer]:
    with SettingsServer() as result:
        yield result


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tries, one right after the other."""
    retry = Retry(3, delay="20ms", backoff="fixed", jitter=False)
    monkeypatch.setattr(recordings, "RETRY", retry)


@dataclass
class Place:
    """Rows, recordings, settings and objects."""

    world: World
    asterisk: AriServer
    provider: SettingsServer
    s3: Storage


@pytest.fixture
def place(world: World, asterisk: AriServer, provider: SettingsServer, s3: Storage) -> Place:
    return Place(world, asterisk, provider, s3)


class Program:
    """The moves as they run."""

    def __init__(self, place: Place, **config: Any) -> None:
        self.beat = Onbeat("memory://")
        self.database = Database(place.world.url)
        url = f"{place.asterisk.url}/ari"
        given = {"url": url, "username": USER, "password": PASSWORD, **config}
        settings = SettingsApi(place.provider.url, TOKEN)
        self.tasks = add_recordings(self.beat, self.database, settings, AriConfig(**given))

    async def select(self) -> int:
        """Run the selection; how many it has yielded."""
        job = await self.tasks.select.asend()
        return (await job.aresult(timeout=PATIENCE)).sent

    async def move(self, id: int) -> str:
        """Raises `JobFailed`."""
        row = RecordingTask(id=id, status="", storage_id="", storage_server_ip="", trim="")
        return await (await self.tasks.move.asend(row)).aresult(timeout=PATIENCE)

    async def end_of(self, job: str) -> str:
        async def ended() -> str | None:
            state = (await self.beat.jobs.aget(job)).state
            return str(state) if state in {"succeeded", "failed", "cancelled"} else None

        return await eventually(ended)

    async def error_of(self, id: int) -> str:
        with pytest.raises(JobFailed) as failed:
            await self.move(id)
        return str(failed.value.job.error)


@asynccontextmanager
async def running(place: Place, **config: Any) -> AsyncIterator[Program]:
    program = Program(place, **config)
    try:
        async with program.beat:
            yield program
    finally:
        await program.database.close()


def stored(place: Place, name: str = "abc", **columns: object) -> int:
    """A recording on the server, with its row."""
    place.asterisk.files[name] = SOUND
    given = {"user_id": 1, "status": "completed", "storage_id": name, "created_at": AT, **columns}
    return place.world.add("recordings", **given)


def row_of(place: Place, id: int) -> tuple[object, ...]:
    (row,) = place.world.rows(
        "SELECT status, relocation_attempts, s3_url FROM recordings WHERE id = ?", id
    )
    return row


async def test_s1_a13_a_recording_goes_to_s3_and_leaves_its_server(place: Place) -> None:
    """S1-05, S1-50, S1-D03, S1-D04: from the selection to the object, by one queue."""
    id = stored(place)
    stored(place, "other", status="recording")
    async with running(place) as program:
        assert await program.select() == 1
        (job,) = await program.beat.jobs.alist(queue="recording_tasks")
        assert job.unique == f"recording:{id}"
        assert await program.end_of(job.id) == "succeeded"
        assert await program.select() == 0
    assert place.s3.names() == ["recordings/abc.wav"]
    assert place.s3.read("recordings/abc.wav") == SOUND
    assert row_of(place, id) == ("processed", 0, f"{place.s3.url}/{BUCKET}/recordings/abc.wav")
    assert list(place.asterisk.files) == ["other"]


async def test_s1_a13_s1_51_each_attempt_that_fails_is_counted(place: Place) -> None:
    id = stored(place)
    place.asterisk.answers = [web.Response(status=404), web.Response(status=500)]
    async with running(place) as program:
        assert await program.move(id) == "moved"
        assert row_of(place, id)[:2] == ("processed", 2)
        gone = stored(place, "gone")
        del place.asterisk.files["gone"]
        assert "/recordings/stored/gone/file was answered by 404" in await program.error_of(gone)
    assert row_of(place, gone) == ("completed", 3, None)


async def test_s1_50_silence_is_trimmed_if_that_is_wanted(place: Place) -> None:
    trimmed = io.BytesIO()
    trim(io.BytesIO(SOUND), trimmed)
    ids = [stored(place, name, trim=name) for name in ("true", "false", "True")]
    place.asterisk.files["mp3"] = b"ID3 and no WAV at all"
    ids.append(
        place.world.add(
            "recordings",
            user_id=1,
            status="completed",
            storage_id="mp3",
            trim="true",
            created_at=AT,
        )
    )
    async with running(place) as program:
        assert [await program.move(id) for id in ids] == ["moved"] * 4
    assert place.s3.read("recordings/true.wav") == trimmed.getvalue()
    assert len(trimmed.getvalue()) < len(SOUND)
    assert place.s3.read("recordings/false.wav") == SOUND
    assert place.s3.read("recordings/True.wav") == SOUND
    assert place.s3.read("recordings/mp3.wav") == b"ID3 and no WAV at all"


async def test_s1_d39_a_source_that_cannot_be_deleted_is_not_fetched_again(place: Place) -> None:
    id = stored(place)
    place.asterisk.refused_deletes = [500, 409]
    async with running(place) as program:
        assert await program.move(id) == "deleted"
        assert await program.move(id) == "deleted", "a source that is gone is deleted"
    assert place.asterisk.fetched == ["abc"]
    assert place.asterisk.files == {}
    assert row_of(place, id)[:2] == ("processed", 0)


async def test_s1_d16_a_recording_has_one_open_job(place: Place) -> None:
    """However often the selection runs; other recordings go on beside it."""
    ids = [stored(place, f"r{number}") for number in range(7)]
    async with running(place) as program:
        await program.beat.queues.apause("recording_tasks")
        assert await program.select() == 7
        await program.select()
        jobs = await program.beat.jobs.alist(queue="recording_tasks")
        assert {str(job.unique) for job in jobs} == {f"recording:{id}" for id in ids}
        assert len(jobs) == len(ids)
        await program.beat.queues.aresume("recording_tasks")
        assert {await program.end_of(job.id) for job in jobs} == {"succeeded"}
    assert sorted(place.asterisk.fetched) == sorted(f"r{number}" for number in range(7))


async def test_s1_d38_the_queue_bounds_how_many_are_moved_at_once(place: Place) -> None:
    """Four hold the beginning of their recording, and no fifth begins."""
    place.asterisk.is_slow = True
    for number in range(6):
        stored(place, f"r{number}")
    async with running(place) as program:
        await program.select()

        async def four() -> bool | None:
            return len(place.asterisk.fetched) == 4 or None

        assert await eventually(four)
        (queue,) = [
            each for each in await program.beat.queues.alist() if each.name == "recording_tasks"
        ]
        assert (queue.limits.concurrency, queue.running, queue.waiting) == (4, 4, 2)
        await program.beat.queues.alimit("recording_tasks", concurrency=6)
        await program.select()
        (queue,) = [
            each for each in await program.beat.queues.alist() if each.name == "recording_tasks"
        ]
        assert queue.limits.concurrency == 6, "what an operator sets stays"
        place.asterisk.go_on()


async def test_s1_d40_the_selection_goes_page_by_page(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And leaves out what has failed too often."""
    monkeypatch.setattr(recordings, "PORTION", 2)
    for number in range(5):
        stored(place, f"r{number}", relocation_attempts=RELOCATION_ATTEMPTS_MAX - 1)
    stored(place, "poison", relocation_attempts=RELOCATION_ATTEMPTS_MAX)
    async with running(place) as program:
        await program.beat.queues.apause("recording_tasks")
        assert await program.select() == 5


class Movers:
    """Processes that move a recording each."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, mover.__file__, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed(self, id: int, at: int) -> bool:
        """Whether the process was killed at that boundary; else it has done all."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{id} {at}\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in {0, -signal.SIGKILL}
        return code != 0

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()


def test_a_process_killed_between_any_two_steps_changes_nothing_in_the_end(place: Place) -> None:
    """S1-D39: object, row and source are right after the next attempt, and never all gone."""
    movers = Movers(place.world.url, place.provider.url, place.asterisk.url)
    number, fetches = 0, list[int]()
    try:
        while True:
            number += 1
            name = f"r{number}"
            id = stored(place, name)
            key = f"recordings/{name}.wav"
            was_killed = movers.killed(id, number)
            is_there = key in place.s3.names()
            assert is_there or place.asterisk.files.get(name) == SOUND
            assert is_there or row_of(place, id)[0] == "completed"
            if was_killed:
                assert movers.killed(id, 1_000) is False
            assert place.s3.read(key) == SOUND
            assert row_of(place, id) == ("processed", 0, f"{place.s3.url}/{BUCKET}/{key}")
            assert name not in place.asterisk.files
            fetches.append(place.asterisk.fetched.count(name))
            if not was_killed:
                break
    finally:
        movers.close()
    assert number > 14
    # It is fetched again only if the process was killed between the fetch and the object.
    assert set(fetches) == {1, 2}
    assert fetches.count(2) <= 3


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"storage_server_ip": "10.2.0.1"}, "server '10.2.0.1' is none of those"),
        ({"storage_server_ip": "169.254.169.254"}, "is none of those"),
        ({"storage_server_ip": "127.0.0.1:22"}, "is none of those"),
        ({"storage_server_ip": "localhost"}, "is none of those"),
        ({"storage_server_ip": "user@127.0.0.1"}, "is none of those"),
        ({"storage_id": "../../etc/passwd"}, "is no name of a recording"),
        ({"storage_id": "a/../b"}, "is no name of a recording"),
        ({"storage_id": ""}, "is no name of a recording"),
    ],
)
async def test_s1_d38_a_row_leads_nowhere_else(
    place: Place,
    columns: dict[str, object],
    error: str,
) -> None:
    """It fails at once, and the row is as it was."""
    id = stored(place, "abc", **columns) if "storage_id" not in columns else 0
    if not id:
        id = place.world.add("recordings", user_id=1, status="completed", created_at=AT, **columns)
    async with running(place, servers=("10.1.0.0/16",)) as program:
        assert error in await program.error_of(id)
    assert row_of(place, id) == ("completed", 1, None)
    assert place.asterisk.fetched == []
    assert place.s3.names() == []


async def test_s1_d38_a_recording_is_fetched_from_its_own_server(place: Place) -> None:
    """Another address than that of the URL, as the network of it is listed."""
    id = stored(place, storage_server_ip="127.0.0.2")
    port = place.asterisk.url.rpartition(":")[2]
    with AriServer("127.0.0.2", int(port)) as other:
        other.files, place.asterisk.files = place.asterisk.files, {}
        async with running(place, servers=("127.0.0.0/28",)) as program:
            assert await program.move(id) == "moved"
        assert (other.fetched, other.files) == (["abc"], {})
    assert place.asterisk.fetched == []


@pytest.mark.parametrize(
    ("servers", "server", "base"),
    [
        ((), "", "http://pbx.example:8088/ari"),
        ((), "pbx.example", "http://pbx.example:8088/ari"),
        (("10.1.0.0/16",), "10.1.255.1", "http://10.1.255.1:8088/ari"),
        (("10.1.2.3",), "10.1.2.3", "http://10.1.2.3:8088/ari"),
        (("fd00::/8",), "fd00::1", "http://[fd00::1]:8088/ari"),
        (("media-1.example",), "media-1.example", "http://media-1.example:8088/ari"),
    ],
)
def test_the_address_of_a_server_that_is_listed(
    servers: tuple[str, ...], server: str, base: str
) -> None:
    config = AriConfig(
        url="http://pbx.example:8088/ari/", username=USER, password=PASSWORD, servers=servers
    )
    assert config.base_of(server) == base


@pytest.mark.parametrize(
    "server",
    [
        "10.2.0.1",
        "::ffff:10.1.0.1",
        "fe80::1%eth0",
        "0xa010001",
        "167837697",
        "10.1.1",
        "a.example",
    ],
)
def test_the_address_of_a_server_that_is_not_listed(server: str) -> None:
    config = AriConfig(
        url="http://pbx.example/ari",
        username=USER,
        password=PASSWORD,
        servers=("10.1.0.0/16", "fe80::/10", "b.example"),
    )
    with pytest.raises(RefusedError, match="none of those"):
        config.base_of(server)


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("", ()),
        ("pbx:8088", ()),
        ("ftp://pbx", ()),
        ("http://user:secret@pbx", ()),
        ("http://pbx", ("10.1.0.1/16",)),
        ("http://pbx", ("a b",)),
        ("http://pbx", ("",)),
    ],
)
def test_a_wrong_configuration_is_refused(url: str, servers: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"URL of ARI|no host, address or network"):
        AriConfig(url=url, username=USER, password=PASSWORD, servers=servers)


@pytest.mark.parametrize("name", ["a", "3f6c-1", "call_7.part.2", "a" * NAME_CHARS_MAX])
def test_a_name_of_a_recording(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "a.",
        "a..b",
        "a/b",
        "a\\b",
        "a b",
        "a\n",
        "a%2fb",
        "ä",
        "a?b",
        "a#b",
        "a" * (NAME_CHARS_MAX + 1),
    ],
)
def test_what_is_no_name_of_a_recording(name: str) -> None:
    with pytest.raises(RefusedError):
        checked_name(name)


async def test_a_recording_has_a_bound(place: Place) -> None:
    small, large = stored(place, "small"), stored(place, "large")
    place.asterisk.files["large"] = SOUND + b"x"
    async with running(place, bytes_max=len(SOUND)) as program:
        assert await program.move(small) == "moved"
        assert f"has more than {len(SOUND)} bytes" in await program.error_of(large)
    assert row_of(place, large) == ("completed", 1, None)
    assert place.s3.names() == ["recordings/small.wav"]


async def test_a_server_that_stops_in_the_middle_is_a_failed_attempt(place: Place) -> None:
    place.asterisk.is_slow = True
    id = stored(place)
    async with running(place, fetch_seconds=0.2) as program:
        await program.error_of(id)
    assert row_of(place, id) == ("completed", 3, None)
    assert place.s3.names() == []


async def test_an_object_of_another_recording_is_not_overwritten(place: Place) -> None:
    """Two servers may give the same name; and an object that names no row is somebody's too."""
    first, second = stored(place), stored(place)
    place.s3.client.put_object(Bucket=BUCKET, Key="recordings/loose.wav", Body=b"loose")
    loose = stored(place, "loose")
    async with running(place) as program:
        assert await program.move(first) == "moved"
        place.asterisk.files["abc"] = b"another"
        for id in (second, loose):
            assert f"is there already, and not of recording {id}" in await program.error_of(id)
    assert place.s3.read("recordings/abc.wav") == SOUND
    assert place.s3.read("recordings/loose.wav") == b"loose"
    assert place.asterisk.files["abc"] == b"another"


async def test_the_source_of_a_processed_row_without_an_object_stays(place: Place) -> None:
    id = stored(place, status="processed")
    async with running(place) as program:
        assert "its source stays" in await program.error_of(id)
        assert await program.move(id + 1) == "gone"
    assert "abc" in place.asterisk.files


async def test_s1_d36_settings_that_cannot_be_had_are_a_failed_attempt(place: Place) -> None:
    id = stored(place)
    place.provider.answers = [web.Response(status=503), web.Response(status=500)]
    async with running(place) as program:
        assert await program.move(id) == "moved"
    assert row_of(place, id)[:2] == ("processed", 2)


async def test_no_secret_is_shown_by_a_job_or_a_log(
    place: Place,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever fails: settings, server, S3."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("botocore").setLevel(logging.INFO)  # its lines for debugging show requests
    id = stored(place)
    shown = list[str]()
    async with running(place) as program:
        place.provider.answers = [web.Response(status=401, text=TOKEN) for _ in range(3)]
        shown.append(await program.error_of(id))
        place.asterisk.answers = [web.Response(status=401, text=PASSWORD) for _ in range(3)]
        shown.append(await program.error_of(id))
        place.s3.client.delete_bucket(Bucket=BUCKET)
        try:
            shown.append(await program.error_of(id))
        finally:
            place.s3.client.create_bucket(
                Bucket=BUCKET,
                CreateBucketConfiguration={"LocationConstraint": "eu-central-1"},
            )
        jobs = await program.beat.jobs.alist()
        shown += [repr(await program.beat.jobs.aget(job.id)) for job in jobs]
        shown.append(repr(program.tasks))
    text = f"{shown} {caplog.text}"
    assert "answered 401, not 200" in text
    assert "was answered by 401" in text
    assert "NoSuchBucket" in text
    assert [secret for secret in SECRETS if secret in text] == []
