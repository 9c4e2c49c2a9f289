"""Stands before a server of SQS and passes calls on, but for those that it was told to refuse."""

import json
from collections import defaultdict
from typing import Any, Self

from aiohttp import ClientSession, web


class FaultyProxy:
    def __init__(self, port: int) -> None:
        self.far = f"http://127.0.0.1:{port}/"
        self.seen: dict[str, list[Any]] = defaultdict(list)
        self.refusals: dict[str, list[web.Response]] = defaultdict(list)
        self.failures: dict[str, list[dict[str, Any]]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/{path:.*}", self.answer)
        self.session = ClientSession(auto_decompress=False)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.port: int = self.runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()
        await self.session.close()

    def refuse(self, verb: str, code: str, message: str, times: int, status: int = 400) -> None:
        """The next calls as a whole."""
        for _ in range(times):
            body = {"__type": f"com.amazonaws.sqs#{code}", "message": message}
            self.refusals[verb].append(
                web.json_response(body, status=status, headers={"x-amzn-errortype": code})
            )

    def fail(self, verb: str, code: str, times: int, *, entries: int, ours: bool) -> None:
        """The first entries of the next calls."""
        for _ in range(times):
            self.failures[verb].append({"code": code, "entries": entries, "ours": ours})

    async def answer(self, request: web.Request) -> web.Response:
        verb = request.headers["x-amz-target"].rpartition(".")[2]
        body = await request.json()
        self.seen[verb].append(body)
        if self.refusals[verb]:
            return self.refusals[verb].pop(0)
        failure = self.failures[verb].pop(0) if self.failures[verb] else None
        failed = body["Entries"][: failure["entries"]] if failure else []
        if failed:
            body = {**body, "Entries": body["Entries"][len(failed) :]}
        answer = await self.passed_on(request, body) if body.get("Entries", True) else {}
        if failure:
            answer["Failed"] = answer.get("Failed", []) + [
                {"Id": one["Id"], "Code": failure["code"], "SenderFault": failure["ours"]}
                for one in failed
            ]
        return web.json_response(answer, status=answer.pop("status", 200))

    async def passed_on(self, request: web.Request, body: Any) -> Any:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in {"host", "content-length"}
        }
        async with self.session.post(self.far, data=json.dumps(body), headers=headers) as answer:
            return {**await answer.json(content_type=None), "status": answer.status}
