"""Text that would run: each payload in every field that others fill, on every page."""

import re
from html.parser import HTMLParser
from urllib.parse import quote

import msgspec
import pytest

from dashboard.office import DashboardOffice
from interfaces.rest_client import RestClient
from onbeat.dashboard.formats import CONTROLS, CONTROLS_OF_DIRECTION
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId
from onbeat.model.job import Job
from onbeat.model.limits import PAUSE_NOTE_CHARS_MAX
from onbeat.model.log_line import JobLogLine, LogEntry
from onbeat.model.outcome import Failed, Succeeded
from onbeat.operations.tables.fleet import QUEUE_PAUSE
from onbeat.rules.log_lines import bounded_entry, fields_text

HARMLESS = "harmless"

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script href='data:,alert(1)'/></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "x onfocus=alert(1) tabindex=1",
    "` onmouseover=alert(1) `",
    "javascript:alert(1)",
    "JaVaScRiPt&colon;alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</pre></dd></dl></main><h1>Nothing here</h1>",
    "</textarea><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<style>*{display:none}</style>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7*7 }}{% for x in ().__class__.__base__.__subclasses__() %}{% endfor %}",
    "${7*7}#{7*7}<%= 7*7 %>%s%n{0.__class__}",
    "&lt;script&gt;&#x3c;script&#62;&quot;",
    "\u202etxt.exe\u2066\u200f\u061c\u2028",
    "\x01\x1b]0;owned\x07\x1b[31m\x7f\x9b",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e\u00ab\u02ba",
    "../../..//evil.example?a=b&c=d#e%00%2e%2e\\",
]


class Structure(HTMLParser):
    """The elements with the names of their attributes, without texts and values."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(" ".join([tag, *(name for name, _ in attrs)]))
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action"}]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.tags.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.tags.append("unknown declaration")

    def handle_pi(self, data: str) -> None:
        self.tags.append("processing instruction")

    def handle_data(self, data: str) -> None:
        self.text += data


class FilledOffice(DashboardOffice):
    """Records with one text in every field that callers and handlers fill."""

    def __init__(self, text: str) -> None:
        super().__init__(keys=())
        self.text = text
        # As much of it as a name may have: control characters and separators are refused.
        self.name = "".join(filter(str.isprintable, text)).strip()
        self.queue = re.sub(r"[/\\?#%,]", "", self.name).strip() or "queue"
        self.paths = [
            "/",
            "/timeline",
            "/jobs",
            "/jobs",
            "/failures",
            "/schedules",
            "/queues",
            "/workers",
            "/events",
            "/dead",
        ]

    async def fill(self) -> None:
        rest = self.client()
        await self.add_schedules(rest)
        await self.add_jobs(rest)
        await self.add_event(rest)
        await self.add_dead_letter()
        await self.harness.hire(
            "shop",
            host=self.text,
            lanes=(self.text, "other"),
        )
        self.paths += ["/audit", "/settings"]

    async def add_jobs(self, rest: RestClient) -> None:
        text = self.text
        draft = {
            "task": self.name,
            "args": [text],
            "kwargs": {text: {text: text}},
            "queue": self.queue,
            "group": self.name,
            "unique": self.name,
            "labels": {"label": self.name},
        }
        await self.sent(rest, "/api/jobs", {**draft, "delay": "1h"})
        for outcome in (Failed(f"at {text}\n{text}", retryable=False), self.succeeded()):
            made = await self.sent(rest, "/api/jobs", {"task": self.name, "args": [text]})
            ended = await self.harness.run(outcome, self.name)
            assert made["id"] == ended.id
            await self.harness.store.add_log_lines([self.line(ended)])
        flow = [
            {"name": "first", "task": self.name, "args": [text], "delay": "1h"},
            {"name": "second", "task": self.name, "after": ["first"]},
        ]
        answer = await self.sent(rest, "/api/jobs", {"jobs": flow})
        self.paths.append(f"/flows/{answer['flow']}")
        self.paths.append(f"/queues/{quote(self.queue, safe='')}")
        # Both alike, since the order of the queues follows from their names.
        for queue in (self.queue, "default"):
            note = {"note": text[:PAUSE_NOTE_CHARS_MAX]}
            await self.harness.ask(QUEUE_PAUSE, note, name=queue)
        failures = (await rest.get("/api/failures")).json["failures"]
        self.paths += [f"/failures/{one['fault']}" for one in failures]
        jobs = (await rest.get("/api/jobs?limit=50")).json["jobs"]
        self.paths += [f"/jobs/{job['id']}" for job in jobs]
        self.paths += [f"/jobs/new?from={job['id']}" for job in jobs]

    def line(self, job: Job) -> JobLogLine:
        """As a handler logs it."""
        entry = LogEntry(
            at=self.harness.clock.at, level=self.text, logger=self.text, text=self.text
        )
        entry = bounded_entry(entry)
        return JobLogLine(
            job_id=job.id,
            number=1,
            attempt=1,
            at=entry.at,
            level=entry.level,
            logger=entry.logger,
            text=entry.text,
            fields=fields_text({self.text: self.text}),
        )

    def succeeded(self) -> Succeeded:
        return Succeeded(msgspec.Raw(msgspec.json.encode({"result": self.text})))

    async def add_schedules(self, rest: RestClient) -> None:
        text = self.text
        common = {"name": self.name, "labels": {"label": self.name}, "queue": self.queue}
        rules: list[dict[str, object]] = [{"every": "1h"}, {"on": {"type": "order.*"}}]
        for number, when in enumerate(rules):
            draft = {**common, **when, "target": {"task": self.name, "args": [text]}}
            draft["key"] = f"{self.name}{number}"
            answer = await self.sent(rest, "/api/schedules", draft)
            path = f"/schedules/{answer['id']}"
            self.paths += [path, f"{path}/edit", f"/schedules/new?from={answer['id']}"]

    async def add_event(self, rest: RestClient) -> None:
        text = self.text
        is_plain = text.isprintable()
        event = {
            "specversion": "1.0",
            "id": text if is_plain else "plain",
            "type": text if is_plain else "plain",
            "source": "shop",
            "subject": text if is_plain else "plain",
            "extension": text if is_plain else "plain",
            "data": {text: [text]},
        }
        await self.sent(rest, "/api/events", event)
        (stored,) = (await rest.get("/api/events?limit=50")).json["events"]
        self.paths.append(f"/events/{quote(stored['id'], safe='')}?source=shop")

    async def add_dead_letter(self) -> None:
        text = self.text
        letter = DeadLetter(
            id=DeadLetterId(self.harness.context.fresh_id()),
            at=self.harness.clock.at,
            source=text,
            reason=text,
            body=text.encode(),
            headers={text: text},
        )
        await self.harness.store.add_dead_letters([letter])
        self.paths.append(f"/dead/{letter.id}")

    async def sent(self, rest: RestClient, path: str, body: object) -> dict[str, str]:
        answer = await rest.post(path, body)
        assert answer.status < 300, (path, answer.body)
        return answer.json

    async def structures(self) -> list[Structure]:
        """Of every page, in an order that does not depend on the text."""
        result = []
        rest = self.client()
        for path in self.paths:
            answer = await rest.get(path)
            assert answer.status == 200, (path, answer.body)
            structure = Structure()
            structure.feed(answer.body.decode())
            structure.close()
            result.append(structure)
        return result


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_is_text_on_every_page(payload: str) -> None:
    office, harmless = FilledOffice(payload), FilledOffice(HARMLESS)
    await office.fill()
    await harmless.fill()
    pages = zip(office.paths, await office.structures(), await harmless.structures(), strict=True)
    escapes = CONTROLS | CONTROLS_OF_DIRECTION
    shown = 0
    for path, page, expected in pages:
        assert page.tags == expected.tags, path
        assert all(one.startswith(("/", "#")) and one[:2] != "//" for one in page.links), path
        assert not any(chr(code) in page.text for code in escapes), path
        shown += payload.translate(escapes) in page.text
    # Names do not have all of it, so lists of names do not show it.
    assert shown >= 5
