"""A service with something on every page, and a browser."""

import shutil
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from conditions import eventually_here
from interfaces.up import Up, up

ADMIN = "admin-key-of-the-test-0001"
OPERATE = "operate-key-of-the-test-02"
READ = "read-key-of-the-test-00003"
KEYS = f"boss:admin={ADMIN},ops:operate={OPERATE},look:read={READ}"

PAYLOAD = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>{{7919*7907}}"
"""Text that would run if any page did not escape it."""

SHOP = f"""
    from onbeat import Fail, Onbeat, cron, every

    beat = Onbeat()
    PAYLOAD = {PAYLOAD!r}


    @beat.task("shop.mail")
    async def mail(to: str) -> str:
        return to


    @beat.task("shop.charge")
    async def charge(card: str) -> None:
        raise Fail(PAYLOAD, retryable=False)


    @beat.schedule(cron("30 2 * * *", tz="Europe/Berlin"), key="ledger", name="Nightly " + PAYLOAD)
    @beat.task("shop.ledger")
    async def ledger() -> None: ...


    @beat.schedule(every("1h"), key="pulse")
    @beat.task("shop.pulse")
    async def pulse() -> None: ...
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """It needs a key. There are jobs that failed, succeeded and wait, a flow, an event."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "shop.py").write_text(dedent(SHOP))
    with up(folder, "shop:beat", ONBEAT_API__KEYS=KEYS) as running:
        fill(running)
        yield running


def fill(service: Up) -> None:
    tell(service, "/api/jobs", {"task": "shop.mail", "kwargs": {"to": PAYLOAD}})
    tell(service, "/api/jobs", {"task": "shop.charge", "kwargs": {"card": PAYLOAD}})
    later = {"task": "shop.mail", "kwargs": {"to": "later"}, "delay": "1h", "labels": {"a": "b"}}
    tell(service, "/api/jobs", later)
    flow = [
        {"name": "first", "task": "shop.mail", "kwargs": {"to": "a"}},
        {"name": "second", "task": "shop.mail", "kwargs": {"to": "b"}, "after": ["first"]},
    ]
    tell(service, "/api/jobs", {"jobs": flow})
    tell(service, "/api/events", {"type": "order.paid", "data": {"text": PAYLOAD}})
    tell(service, "/api/queues/bulk/pause", {"note": PAYLOAD})
    grouped = {"task": "shop.mail", "kwargs": {"to": "later"}, "delay": "1h", "queue": "shared"}
    tell(service, "/api/jobs", {"jobs": [{**grouped, "group": name} for name in ("a", "b")]})
    eventually_here(lambda: jobs(service, "failed"), "a job has failed")
    eventually_here(lambda: len(jobs(service, "succeeded")) == 3, "the others have succeeded")


def tell(service: Up, path: str, body: object) -> Any:
    status, answer = service.ask(path, body, Authorization=f"Bearer {ADMIN}")
    assert status < 300, answer
    return answer


def jobs(service: Up, state: str) -> list[dict[str, str]]:
    status, answer = service.ask(f"/api/jobs?state={state}", Authorization=f"Bearer {ADMIN}")
    assert status == 200, answer
    return answer["jobs"]


def details(service: Up) -> list[str]:
    """The pages of one thing each."""
    failed = jobs(service, "failed")[0]["id"]
    flow = next(job["flow"] for job in jobs(service, "succeeded") if job["flow"])
    headers = {"Authorization": f"Bearer {ADMIN}"}
    schedules = service.ask("/api/schedules", **headers)[1]["schedules"]
    event = service.ask("/api/events", **headers)[1]["events"][0]
    fault = jobs(service, "failed")[0]["fault"]
    return [
        f"/jobs/{failed}",
        f"/failures/{fault}",
        f"/flows/{flow}",
        "/queues/shared",
        "/queues/bulk",
        *(f"/schedules/{one['id']}" for one in schedules),
        f"/events/{event['id']}?source={event['source']}",
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of the system; no test downloads a browser.

    Not for the session: its event loop runs in this thread, where other tests have theirs.
    """
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path is not None, "the tests of the dashboard need Chromium: apt-get install chromium"
    expect.set_options(timeout=30_000)  # a bound for a machine that is busy with other tests
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


ARGUMENTS = [
    "--no-sandbox",  # the tests of CI run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
]


def address(service: Up) -> str:
    host, port = service.address
    return f"http://{host}:{port}"
