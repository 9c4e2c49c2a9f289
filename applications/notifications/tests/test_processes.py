"""Real processes, killed, stopped and several at once, with a real mail server."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import asyncpg

from notifications.planning import Cause
from receivers import Mails, Posts
from service import answer, channels, eventually, publish, running, states, status_of
from world import PAID, World

MANY = 1_000
"""A portion has 200 recipients."""


class Held:
    """A row of the table of notices that another transaction is about to insert."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.let_go = threading.Event()
        self.is_held = threading.Event()

    async def hold(self) -> None:
        connection = await asyncpg.connect(self.world.config.database)
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO notices VALUES ($1, '', '', '', '', '', '', '', '', 0)", self.name
            )
            self.is_held.set()
            await asyncio.get_running_loop().run_in_executor(None, self.let_go.wait)
            await connection.execute("DELETE FROM notices WHERE name = $1", self.name)
        await connection.close()

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(1)
        self.done = self.pool.submit(asyncio.run, self.hold())
        self.is_held.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.done.result()
        self.pool.shutdown()


def test_s4_a05_a_fan_out_that_is_killed_in_the_middle_misses_nobody_and_tells_nobody_twice(
    fleet: World, mails: Mails
) -> None:
    fleet.topic()
    ids = fleet.recipients(MANY)
    name = Cause("/shop", "e1").name("r0500", "mail")
    with running(fleet, mails) as (service,), Held(fleet, name):
        publish(service, PAID, "e1")
        # Two portions are through, and the third one waits for our row.
        service.eventually(lambda: len(mails.came) == 400, "400 were told")
        service.eventually(lambda: states(service) == 400 * ["succeeded"], "their jobs have ended")
        service.kill()
    assert mails.to == ids[:400]
    with running(fleet, mails) as (service,):
        service.eventually(lambda: len(mails.came) >= MANY, "all were told")
        service.eventually(lambda: set(states(service)) == {"succeeded"}, "all has ended")
        assert len(states(service)) == MANY
        assert service.stop() == 0
    assert mails.to == ids
    assert len(mails.ids) == MANY


def test_s4_a06_four_instances_tell_each_recipient_once(fleet: World, mails: Mails) -> None:
    fleet.topic()
    ids = fleet.recipients(MANY)
    # With few jobs at once, as the server has 100 connections for all tests.
    with running(fleet, mails, "--concurrency", "4", number=4) as services:
        publish(services[0], PAID, "e1")
        publish(services[3], PAID, "e1")
        eventually(lambda: len(mails.came) >= MANY, "all were told")
        assert [service.stop() for service in services] == [0, 0, 0, 0]
    assert mails.to == ids


def test_s4_a09_a_stop_ends_the_notice_under_way_and_leaves_the_others(
    sqlite: World, mails: Mails
) -> None:
    sqlite.topic()
    ids = sqlite.recipients(3)
    mails.held = threading.Event()
    try:
        with running(sqlite, mails, "--concurrency", "1") as (service,):
            publish(service, PAID, "e1")
            service.eventually(lambda: mails.tried == 1, "the first one is under way")
            service.eventually(lambda: len(states(service)) == 3, "the others wait")
            service.process.terminate()
            eventually(lambda: status_of(f"{service.url}/readyz") != 200, "it is stopping")
            mails.held.set()
            assert service.process.wait(30) == 0
    finally:
        mails.held.set()
    assert len(mails.to) == 1
    with running(sqlite, mails) as (service,):
        service.eventually(lambda: len(mails.came) == 3, "the others are told by the next one")
    assert mails.to == ids


def test_s4_a10_what_became_of_an_event_can_be_asked(
    sqlite: World, mails: Mails, posts: Posts
) -> None:
    """By the command, from a real service: over mail, a webhook, a chat, and not at all."""
    sqlite.topic()
    sqlite.recipient("ada", "mail", "hook")
    sqlite.recipient("bob")
    sqlite.recipient("ops")
    sqlite.address("ops", "room", "")
    sqlite.recipient("eve", "pager")  # no worker has that channel
    mails.answers += ["451 busy"]
    more = {
        "hook": f"webhook+http://127.0.0.1:{posts.port}/hook",
        "room": "slack:ROOM_URL",
    }
    variables = {
        **channels(mails, **more),
        "ROOM_URL": f"http://127.0.0.1:{posts.port}/room/secret",
    }
    with running(sqlite, mails, variables=variables) as (service,):
        sent = answer(sqlite, "publish", PAID, "--id", "e1", "--data", '{"order": 7}')
        assert sent == {"event": "e1", "created": True}
        assert answer(sqlite, "publish", PAID, "--id", "e1")["created"] is False
        service.eventually(lambda: len(posts.came) == 2, "webhook and chat were told")
        service.eventually(lambda: "waiting" in states(service), "the mail was tried")

        def are_kept() -> bool:
            outcomes = sqlite.outcomes("recipient", "channel", "outcome")
            return outcomes == [
                ("ada", "hook", "sent"),
                ("ada", "mail", "started"),
                ("bob", "", "skipped"),
                ("eve", "pager", "planned"),
                ("ops", "room", "sent"),
            ]

        service.eventually(are_kept, "the outcomes are kept")
        found = answer(sqlite, "notice", "list", "e1")
    rows = {f"{row['recipient']} {row['channel']}": row for row in found}
    assert rows["bob "]["why"] == "no address"
    mail = rows["ada mail"]
    assert (mail["outcome"], mail["state"], mail["attempt"]) == ("started", "waiting", 1)
    assert (mail["attempts_max"], mail["topic"], mail["source"]) == (6, PAID, "/notifications")
    assert "451 busy" in mail["last_error"]
    assert mail["run_at"]
    assert {repr(row["data"]) for row in found} == {"{'order': 7}"}
    pager = rows["eve pager"]
    assert (pager["state"], pager["attempt"], pager["attempts_max"]) == ("waiting", 0, 6)
    assert pager["run_at"]
    assert pager["job"]
    bodies = dict(posts.came)
    assert bodies["/hook"]["to"] == "ada@example.com"
    assert "Dear Ops, thanks." in json.dumps(bodies["/room/secret"])
