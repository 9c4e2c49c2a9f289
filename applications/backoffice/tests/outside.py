"""Local servers in the place of the provider's own: mails, settings, ARI, and S3 by moto."""

import asyncio
import io
import logging
import threading
import wave
from array import array
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import boto3
from aiohttp import web
from moto.server import ThreadedMotoServer

Value = TypeVar("Value")

PATIENCE: Final = 30
MAIL_KEY: Final = "canary-mail-key"
TOKEN: Final = "canary-api-token"
USER: Final = "asterisk"
PASSWORD: Final = "canary-ari-password"
ACCESS_KEY: Final = "canary-access-key-id"
SECRET_KEY: Final = "canary-secret-access-key"
SECRETS: Final = (MAIL_KEY, TOKEN, PASSWORD, ACCESS_KEY, SECRET_KEY)
BUCKET: Final = "recordings-of-the-provider"
REGION: Final = "eu-central-1"


class Server:
    """An application of `aiohttp` in a thread. Its attributes are set and read by tests."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.address = (host, port)
        self.answers: list[web.Response] = []
        """What to answer first, in this order; then it answers as it should."""
        self.url = ""
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.ended = asyncio.Event()
        self.thread = threading.Thread(target=self.serve, name=type(self).__name__)

    def routes(self) -> list[web.RouteDef]:
        raise NotImplementedError

    def serve(self) -> None:
        try:
            self.loop.run_until_complete(self.serve_until_ended())
        finally:
            self.loop.close()

    async def serve_until_ended(self) -> None:
        application = web.Application()
        application.add_routes(self.routes())
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, *self.address).start()
        host, port = runner.addresses[0]
        self.url = f"http://{host}:{port}"
        self.ready.set()
        await self.ended.wait()
        await runner.cleanup()

    def __enter__(self) -> Any:
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(10)

    def planned(self) -> web.Response | None:
        return self.answers.pop(0) if self.answers else None


class MailServer(Server):
    """Takes mails, one for each `Idempotency-Key`."""

    def __init__(self) -> None:
        super().__init__()
        self.mails: dict[str, Any] = {}
        self.posts: list[Mapping[str, str]] = []
        """The headers of all requests."""
        self.on_post: Callable[[], object] = int

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/api/sendEmail", self.take)]

    async def take(self, request: web.Request) -> web.Response:
        self.posts.append(dict(request.headers))
        self.on_post()
        if request.headers.get("X-Lineblocs-Key") != MAIL_KEY:
            return web.Response(status=401, text="the key is wrong")
        if planned := self.planned():
            return planned
        self.mails.setdefault(request.headers["Idempotency-Key"], await request.json())
        return web.Response(status=202)

    @property
    def sent(self) -> list[tuple[str, str]]:
        """The kind and the recipient of each mail, in their order."""
        return [(mail["email_type"], mail["to"]) for mail in self.mails.values()]


class SettingsServer(Server):
    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.credentials: Any = {
            "aws_region": REGION,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "s3_bucket": BUCKET,
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/user/getSettings", self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        self.requests += 1
        if request.headers.get("X-Lineblocs-Api-Token") != TOKEN:
            return web.Response(status=401)
        return self.planned() or web.json_response({"credentials": self.credentials})


class AriServer(Server):
    """Stored recordings, by their names."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(host, port)
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.is_slow = False
        """The rest of a recording does not come before `go_on`."""
        self.going_on = asyncio.Event()
        self.refused_deletes: list[int] = []
        """With what to answer the next ones."""

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/ari/recordings/stored/{name}/file", self.file),
            web.delete("/ari/recordings/stored/{name}", self.delete),
        ]

    def go_on(self) -> None:
        self.is_slow = False
        self.loop.call_soon_threadsafe(self.going_on.set)

    def is_ours(self, request: web.Request) -> bool:
        expected = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return request.headers.get("Authorization") == f"Basic {expected}"

    async def file(self, request: web.Request) -> web.StreamResponse:
        if not self.is_ours(request):
            return web.Response(status=401)
        if planned := self.planned():
            return planned
        name = request.match_info["name"]
        self.fetched.append(name)
        if name not in self.files:
            return web.Response(status=404)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(self.files[name][:100])
        if self.is_slow:
            await self.going_on.wait()
        await response.write(self.files[name][100:])
        await response.write_eof()
        return response

    async def delete(self, request: web.Request) -> web.Response:
        if not self.is_ours(request):
            return web.Response(status=401)
        if self.refused_deletes:
            return web.Response(status=self.refused_deletes.pop(0))
        gone = self.files.pop(request.match_info["name"], None)
        return web.Response(status=404 if gone is None else 204)


class Storage:
    """A server of S3 with our bucket."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = boto3.session.Session().client(
            "s3",
            region_name=REGION,
            endpoint_url=url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def empty(self) -> None:
        for key in self.names():
            self.client.delete_object(Bucket=BUCKET, Key=key)

    def names(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [str(each["Key"]) for each in found]

    def read(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())


async def eventually(condition: Callable[[], Awaitable[Value | None]]) -> Value:
    """The first answer that is not None."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await condition()) is None:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.02)
        return answer


@contextmanager
def storage() -> Iterator[Storage]:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for every call
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        result = Storage(f"http://127.0.0.1:{server.get_host_and_port()[1]}")
        place = {"LocationConstraint": REGION}
        result.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        yield result
        result.client.close()
    finally:
        server.stop()


def tone(*parts: tuple[int, int], channels: int = 1, rate: int = 8_000) -> bytes:
    """A WAV: of each part so many frames of that amplitude, alternating around 0."""
    samples = array("h")
    for frames, amplitude in parts:
        samples.extend([amplitude, -amplitude][index % 2] for index in range(frames * channels))
    file = io.BytesIO()
    with wave.Wave_write(file) as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue()
