"""Two small web servers in the place of your own: one always answers, the shop is down at times."""

import time
from datetime import UTC, datetime

from aiohttp import web
from rich.console import Console
from rich.markup import escape

NOTICES = "/ops"
OUTAGE = 40.0
QUIET = 300.0
console = Console(highlight=False)


class Receiver:
    """Prints what it is told. The shop's first call after five quiet minutes begins an outage."""

    def __init__(self) -> None:
        self.runners: list[web.AppRunner] = []
        self.url = ""
        self.shop = ""
        self.outage_began = self.last_call = -QUIET
        self.is_down = False

    async def start(self, port: int, shop_port: int) -> None:
        """Two servers, since each is an endpoint with a breaker of its own."""
        self.url = await self.serve(port, self.answer)
        self.shop = await self.serve(shop_port, self.answer_as_shop)

    async def serve(self, port: int, handler: web.RequestHandler) -> str:
        """The address of the new server."""
        application = web.Application()
        application.router.add_route("*", "/{name}", handler)
        runner = web.AppRunner(application)
        await runner.setup()
        self.runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        for runner in self.runners:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == NOTICES:
            show_notice(await request.json())
            return web.Response(status=204)
        attempt = int(request.headers["Onbeat-Attempt"])
        refuses = request.match_info["name"] == "stubborn" and attempt < 3
        status = 503 if refuses else 204
        show_call(request, attempt, status)
        return web.Response(status=status)

    async def answer_as_shop(self, request: web.Request) -> web.Response:
        now = time.monotonic()
        if now - self.last_call > QUIET:
            self.outage_began = now
        self.last_call = now
        was_down, self.is_down = self.is_down, now - self.outage_began < OUTAGE
        if was_down != self.is_down:
            words = f"is down for {OUTAGE:.0f} s" if self.is_down else "is back"
            say("/shop", "yellow" if self.is_down else "green", words)
        return web.Response(status=503 if self.is_down else 204)


def show_call(request: web.Request, attempt: int, status: int) -> None:
    when = f"try {attempt}"
    if "Onbeat-Occurrence" in request.headers:
        due = datetime.fromisoformat(request.headers["Onbeat-Occurrence"])
        passed = (datetime.now(UTC) - due).total_seconds()
        late = f"{passed * 1000:6.1f} ms" if attempt == 1 else when
        when = f"due {due:%H:%M:%S}Z  after {late:>9}"
    colour = "green" if status < 300 else "yellow"
    say(request.path, colour, str(status), when + "  ")


def show_notice(notice: dict[str, str]) -> None:
    say(NOTICES, "cyan", " - ".join(filter(None, (notice.get("title"), notice.get("text")))))


def say(path: str, colour: str, words: str, before: str = "") -> None:
    """One line of what happens, with the time of this machine."""
    clock = f"{datetime.now().astimezone():%H:%M:%S.%f}"
    what = f"{escape(f'{path:<10}')} {before}[{colour}]{escape(words)}[/{colour}]"
    console.print(f"[dim]{clock}[/dim]  {what}", soft_wrap=True)
