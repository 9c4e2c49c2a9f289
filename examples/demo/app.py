"""The tasks of the demo: what a shop would run, with sleeps in the place of work.

Nothing here is left to chance: what fails follows from the time and the arguments.
"""

import asyncio
from collections.abc import AsyncIterator

from onbeat import Call, Context, Onbeat, Retry, http, on_failure

beat = Onbeat()
ONCE = Retry(attempts_max=1)
CALLS_OF_A_STORM = 90
TENANTS = {"acme": 12, "globex": 4, "initech": 2, "umbrella": 1}
"""How many rows each has to import, each time."""


@beat.task("mail.send", queue="mail", retry=Retry(attempts_max=2, delay="1s"))
async def send_mail(context: Context, every: int) -> str:
    """One mail in eight cannot be sent, for one of three reasons."""
    assert context.occurrence is not None
    number = int(context.occurrence.timestamp()) // every
    await asyncio.sleep(0.2)
    if number % 8 == 3:
        match number // 8 % 3:
            case 0:
                raise TimeoutError("mail.example did not answer within 10 s")
            case 1:
                raise ConnectionRefusedError("mail.example refused the connection")
            case _:
                raise ValueError(f"no such mailbox: customer-{number % 100}@example.com")
    return f"sent to customer-{number % 100}@example.com"


@beat.task("ledger.close", queue="ledger")
async def close_ledger(context: Context) -> str:
    return f"closed the ledger of {context.occurrence:%d %b %H:%M}"


@beat.task("stock.count", queue="stock")
async def count_stock() -> int:
    """Takes longer than its schedule leaves, so that occurrences are skipped."""
    await asyncio.sleep(25)
    return 4711


@beat.task("report.render", queue="reports")
async def render_report(context: Context, number: int) -> str:
    for page in range(1, 9):
        context.progress(page, 8)
        await asyncio.sleep(1)
    return f"report-{number}.pdf"


@beat.task("report.request", queue="fanout")
async def request_reports(count: int) -> AsyncIterator[Call[str]]:
    """As many as the queue of the reports can do until the next time."""
    for number in range(count):
        yield render_report.call(number)


@beat.task("tenant.import", queue="imports")
async def import_row(tenant: str, row: int) -> str:
    await asyncio.sleep(1)
    return f"row {row} of {tenant}"


@beat.task("tenant.export", queue="fanout")
async def export_rows() -> AsyncIterator[Call[str]]:
    """All at once, the most by one tenant: the fair queue lets the others through."""
    for tenant, rows in TENANTS.items():
        for row in range(rows):
            yield import_row.options(group=tenant).call(tenant, row)


@beat.task("shop.sync", queue="fanout")
async def sync_shop(url: str) -> AsyncIterator[Call[object]]:
    """A minute of calls, in which the shop is down for 40 seconds."""
    retry = Retry(attempts_max=10, delay="2s")
    for number in range(CALLS_OF_A_STORM):
        call = http("POST", url, json={"product": number})
        yield call.with_options(queue="shop", delay=f"{number * 0.7:.1f}s", retry=retry)


@beat.task("release.build", queue="release")
async def build(part: str) -> str:
    await asyncio.sleep(2 if part == "api" else 4)
    return f"{part}.tar.gz"


@beat.task("release.test", queue="release")
async def test(context: Context) -> str:
    await asyncio.sleep(3)
    return f"tested {', '.join(str(one.result) for one in context.after.values())}"


@beat.task("release.deploy", queue="release", retry=ONCE)
async def deploy() -> None:
    await asyncio.sleep(1)
    raise PermissionError("the key of the production cluster has expired")


@beat.task("release.announce", queue="release")
async def announce() -> None: ...


@beat.task("release.rollback", queue="release")
async def roll_back() -> str:
    await asyncio.sleep(1)
    return "production is as it was"


@beat.task("release.start", queue="release")
async def release() -> AsyncIterator[Call[object]]:
    """A flow of seven jobs, this one included; its deployment fails."""
    api = build.options(name="build api").call("api")
    web = build.options(name="build web").call("web")
    tested = test.options(name="test", after=[api, web]).call()
    deployed = deploy.options(name="deploy", after=tested).call()
    yield api
    yield web
    yield tested
    yield deployed
    yield announce.options(name="announce", after=deployed).call()
    yield roll_back.options(name="roll back", after=on_failure(deployed)).call()
