"""Python has a verb for every operation, on a store and on a service, for plain code and not."""

import asyncio
import inspect
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

import pytest
import uvicorn

import onbeat
import onbeat.types
from conditions import eventually
from onbeat import JobFailed, Onbeat, Options, Retry, every
from onbeat.api.asgi import build_api
from onbeat.app.listener import Server
from onbeat.app.remote_backend import RemoteBackend
from onbeat.operations.table import OPERATIONS
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.types import Rotated

WORKERS: Final = "the protocol of workers in other languages; in Python a started Onbeat claims"
EXCEPTIONS: Final = {
    "job.claim": WORKERS,
    "job.start": WORKERS,
    "job.renew": WORKERS,
    "job.settle": WORKERS,
}
"""Operations without a verb, each with its reason."""

DIRECT: Final = {"job.enqueue", "notification.send", "schedule.put"}
"""A program stores these itself: its rules may be functions, and its options are read already."""

NOTICES_ARE_JOBS: Final = {"notification.send": "job.enqueue"}
"""A client of a service makes the jobs of a notice, as `onbeat.notify` does."""

DAY: Final = timedelta(days=1)
HOURLY: Final = every("1h")
KEYS: Final = (f"one:{b64encode(bytes(32)).decode()}",)
REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


class Fresh(NamedTuple):
    """What one verb may change: everything was made for it alone, but for the fault."""

    add: Any
    key: str
    job: str
    cancelled: str
    flow: str
    event: str
    letter: str
    group: str
    silence: str
    bulk: str
    name: str
    fault: str


class Verb(NamedTuple):
    """The verb by its path, and the arguments of its call."""

    path: str
    arguments: Callable[[Fresh], tuple[Any, ...]]
    keywords: dict[str, Any]


def verb(path: str, arguments: Callable[[Fresh], tuple[Any, ...]], **keywords: Any) -> Verb:
    return Verb(path, arguments, keywords)


def nothing(_fresh: Fresh) -> tuple[Any, ...]:
    return ()


def now() -> datetime:
    return datetime.now(UTC)


VERBS: Final = {
    "schedule.create": verb("schedules.create", lambda it: (HOURLY, it.add.call(1, 2)), name="n"),
    "schedule.list": verb("schedules.list", nothing, q="key", status="active"),
    "schedule.put": verb("schedules.put", lambda it: (it.key, HOURLY, it.add.call(1, 2))),
    "schedule.show": verb("schedules.get", lambda it: (it.key,)),
    "schedule.update": verb("schedules.update", lambda it: (it.key,), queue="other"),
    "schedule.diff": verb("schedules.diff", lambda it: (it.key,), queue="other"),
    "schedule.put_diff": verb("schedules.put_diff", lambda it: ("new", HOURLY, it.add.call(1, 2))),
    "schedule.delete": verb("schedules.delete", lambda it: (it.key,)),
    "schedule.pause": verb("schedules.pause", lambda it: (it.key,)),
    "schedule.resume": verb("schedules.resume", lambda it: (it.key,)),
    "schedule.trigger": verb("schedules.trigger", lambda it: (it.key,)),
    "schedule.backfill": verb(
        "schedules.backfill", lambda it: (it.key, now() - DAY, now()), dry_run=True
    ),
    "schedule.preview": verb("schedules.preview", lambda it: (it.key,), count=3),
    "schedule.events_pending": verb("schedules.events", lambda it: (it.key,), ended=False),
    "schedule.events_history": verb("schedules.events", lambda it: (it.key,)),
    "schedule.occurrences": verb(
        "schedules.occurrences", lambda it: (it.key,), disposition="planned"
    ),
    "recurrence.preview": verb("schedules.preview_rule", lambda _: (HOURLY,), count=3),
    "schedule.forecast": verb("forecast", nothing),
    "timeline.show": verb("timeline", nothing, day="2026-03-29", tz="Europe/Berlin"),
    "job.enqueue": verb("send", lambda it: (it.add.options(delay="1h").call(1, 2),)),
    "notification.send": verb("notify", lambda _: ("mail", "a@example.com"), title="t", delay="1h"),
    "job.list": verb("jobs.list", nothing, state="waiting"),
    "job.bulk": verb("jobs.bulk", lambda _: ("cancel",), queue="none", dry_run=True),
    "bulk.list": verb("jobs.bulks", nothing),
    "bulk.show": verb("jobs.get_bulk", lambda it: (it.bulk,)),
    "bulk.stop": verb("jobs.stop_bulk", lambda it: (it.bulk,)),
    "job.show": verb("jobs.get", lambda it: (it.job,)),
    "job.cancel": verb("jobs.cancel", lambda it: (it.job,)),
    "job.retry": verb("jobs.retry", lambda it: (it.cancelled,)),
    "job.reschedule": verb("jobs.reschedule", lambda it: (it.job,), delay="2h"),
    "job.why": verb("jobs.why", lambda it: (it.job,)),
    "job.log": verb("jobs.log", lambda it: (it.job,)),
    "flow.list": verb("flows.list", nothing, limit=5),
    "flow.show": verb("flows.show", lambda it: (it.flow,)),
    "flow.cancel": verb("flows.cancel", lambda it: (it.flow,)),
    "flow.retry": verb("flows.retry", lambda it: (it.flow,)),
    "event.publish": verb("events.publish", lambda _: ("order.paid", {"id": 7})),
    "event.list": verb("events.list", nothing, type="order.*"),
    "event.show": verb("events.show", lambda it: (it.event,)),
    "event.replay": verb("events.replay", lambda it: (it.event,)),
    "failure.list": verb(
        "failures.list", nothing, task="fail", since=datetime(2026, 1, 1, tzinfo=UTC)
    ),
    "failure.show": verb("failures.show", lambda it: (it.fault,)),
    "failure.silence": verb("failures.silence", lambda it: (it.fault, "1h")),
    "failure.note": verb("failures.note", lambda it: (it.fault, "known")),
    "failure.replay": verb("failures.replay", lambda it: (it.fault,), dry_run=True),
    "dead.list": verb("dead_letters.list", nothing, source="rpc"),
    "dead.show": verb("dead_letters.show", lambda it: (it.letter,)),
    "dead.replay": verb("dead_letters.replay", lambda it: (it.letter,)),
    "dead.delete": verb("dead_letters.delete", lambda it: (it.letter,)),
    "dead.groups": verb("dead_letters.groups", nothing),
    "dead.replay_group": verb("dead_letters.replay_group", lambda it: (it.group,), dry_run=True),
    "dead.delete_group": verb("dead_letters.delete_group", lambda it: (it.group,), dry_run=True),
    "queue.list": verb("queues.list", nothing),
    "queue.show": verb("queues.get", lambda it: (it.name,)),
    "queue.pause": verb("queues.pause", lambda it: (it.name,), note="why"),
    "queue.resume": verb("queues.resume", lambda it: (it.name,)),
    "queue.limit": verb("queues.limit", lambda it: (it.name,), concurrency=3, late_after="5m"),
    "worker.list": verb("workers", nothing, jobs=3),
    "stats.show": verb("stats", nothing),
    "alert.list": verb("alerts.list", nothing),
    "alert.silence": verb("alerts.silence", lambda it: (f"late:{it.name}", "1h")),
    "alert.unsilence": verb("alerts.unsilence", lambda it: (it.silence,)),
    "pulse.show": verb("pulses.show", lambda _: ("day",)),
    "pulse.queues": verb("pulses.queues", nothing),
    "key.create": verb("keys.create", lambda it: (it.name + "-2", ["read"]), expires="1h"),
    "key.list": verb("keys.list", nothing),
    "key.revoke": verb("keys.revoke", lambda it: (it.name,)),
    "session.list": verb("keys.sessions", nothing),
    "settings.show": verb("settings", nothing),
    "secrets.rotate": verb("secrets.rotate", nothing),
    "audit.list": verb("audit.list", nothing, action="queue.pause"),
}
"""The verb of each operation, with a call that succeeds."""

GROUPS: Final = (
    *("schedules", "jobs", "events", "flows", "queues", "failures", "dead_letters", "alerts"),
    *("pulses", "audit", "keys", "secrets"),
)


class World(NamedTuple):
    """A running program, and who calls: the program, or a client of its service."""

    program: Onbeat
    caller: Onbeat
    add: Any
    fault: str

    async def fresh(self, number: int) -> Fresh:
        """Records that nobody else changes."""
        program, later = self.program, self.add.options(delay="1h")
        name, key = f"name-{number}", f"key-{number}"
        await program.schedules.aput(key, HOURLY, self.add.call(1, 2))
        job, cancelled = await program.asend([later.call(1, 2), later.call(3, 4)])
        await program.jobs.acancel(cancelled.id)
        event = await program.events.apublish("order.placed", id=f"event-{number}")
        letter = a_dead_letter(source="rpc")
        await program.backend.store.add_dead_letters([letter])
        group, *_ = await program.dead_letters.agroups()
        await program.queues.alimit(name, concurrency=1)
        await program.keys.acreate(name, ["read"])
        return Fresh(
            add=self.add,
            key=key,
            job=job.id,
            cancelled=cancelled.id,
            flow=(await program.abatch([later.call(5, 6)])).id,
            event=event.id,
            letter=letter.id,
            group=group.group,
            silence=(await program.alerts.asilence(f"late:{name}", "1h")).id,
            bulk=str((await program.jobs.abulk("cancel", queue=name)).id),
            name=name,
            fault=self.fault,
        )


@pytest.fixture(params=["store", "service"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    program = Onbeat(
        "memory://",
        options=Options(
            encryption_keys=KEYS, channels={"mail": "smtp://127.0.0.1:9?from=shop@example.com"}
        ),
    )

    @program.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    @program.task("fail", retry=Retry(1))
    async def fail() -> None:
        raise ValueError("of its own")

    server = Server(
        uvicorn.Config(build_api(program.backend.context), port=0, lifespan="off", log_config=None)
    )
    async with program:
        serving = asyncio.create_task(server.serve())
        await server.listens.wait()
        port = server.servers[0].sockets[0].getsockname()[1]
        with pytest.raises(JobFailed):
            await (await fail.asend()).aresult()
        (failure,) = await eventually(program.failures.alist, "the failure is counted")
        admin = (await program.keys.acreate("admin", ["admin"])).key
        client = Onbeat(f"http://127.0.0.1:{port}", api_key=admin)
        caller = program if request.param == "store" else client
        yield World(program, caller, add, failure.fault)
        server.should_exit = True
        await serving
    caller.backend.portal.close()
    program.backend.portal.close()


def invoked(caller: Onbeat) -> list[str]:
    """The names of the operations that the caller invokes from now on."""
    names: list[str] = []
    backend: Any = caller.backend
    way = "send" if isinstance(backend, RemoteBackend) else "invoke"
    pass_on = getattr(backend, way)

    async def noted(operation: Any, *request: Any) -> Any:
        names.append(operation.name)
        return await pass_on(operation, *request)

    setattr(backend, way, noted)
    return names


def other_form(path: str) -> str:
    """The path of the form for coroutines."""
    group, _, name = path.rpartition(".")
    return f"{group}.a{name}" if group else f"a{name}"


@pytest.mark.parametrize("form", ["plain", "coroutine"])
async def test_every_operation_is_invoked_by_its_verb(world: World, form: str) -> None:
    caller, is_client = world.caller, world.caller is not world.program
    names = invoked(caller)
    for number, (operation, (path, arguments, keywords)) in enumerate(VERBS.items()):
        fresh = await world.fresh(number)
        names.clear()
        if form == "plain":
            plain = attrgetter(path)(caller)
            answer = await asyncio.to_thread(plain, *arguments(fresh), **keywords)
        else:
            answer = await attrgetter(other_form(path))(caller)(*arguments(fresh), **keywords)
        wanted = NOTICES_ARE_JOBS.get(operation, operation)
        assert wanted in names or (operation in DIRECT and not is_client), (operation, names)
        assert shapes(answer) <= PUBLIC, operation


PUBLIC: Final = {
    *(id(getattr(module, name)) for module in (onbeat, onbeat.types) for name in module.__all__),
    *map(id, (str, type(None))),
}


def shapes(answer: Any) -> set[int]:
    """The types of the answer, or of the items in it."""
    items = answer if isinstance(answer, list | tuple) and type(answer) is not Rotated else [answer]
    return {id(type(item)) for item in items}


def test_every_operation_has_a_verb() -> None:
    names = {operation.name for operation in OPERATIONS}
    assert names - VERBS.keys() - EXCEPTIONS.keys() == set(), "give Python a verb, or a reason"
    assert VERBS.keys() | EXCEPTIONS.keys() == names
    assert VERBS.keys() & EXCEPTIONS.keys() == set()


@pytest.mark.parametrize("path", sorted({verb.path for verb in VERBS.values()}))
def test_both_forms_take_and_answer_the_same(path: str) -> None:
    beat = Onbeat("memory://")
    plain, other = attrgetter(path)(beat), attrgetter(other_form(path))(beat)
    assert inspect.iscoroutinefunction(other)
    assert not inspect.iscoroutinefunction(plain)
    assert inspect.signature(plain).parameters == inspect.signature(other).parameters
    assert get_type_hints(plain)["return"] == get_type_hints(other)["return"]
    assert plain.__doc__, "the plain form says what it does"


def test_the_reference_names_every_verb() -> None:
    rows = {
        line.split("|")[1]: line
        for line in REFERENCE.read_text().split("\n## Task")[0].splitlines()
        if line.startswith("| `")
    }
    missing = [
        f"{group}.{name}"
        for group in GROUPS
        for name in public_names(getattr(Onbeat("memory://"), group))
        if not name_in(rows[f" `{group}` "], name)
    ]
    own = {verb.path for verb in VERBS.values() if "." not in verb.path}
    missing += [name for name in own if not any(name_in(head, name) for head in rows)]
    assert missing == []


def public_names(group: object) -> set[str]:
    """Its verbs, without the forms for coroutines."""
    names = {name for name in dir(type(group)) if not name.startswith("_")}
    return {name for name in names if f"a{name}" in names}


def name_in(text: str, name: str) -> bool:
    return re.search(rf"`{name}[`(]", text) is not None
