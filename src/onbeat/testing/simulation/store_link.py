"""A process's connection to the shared store, on which calls fail, are slow, and lose answers."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, cast

from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.ports.store import Hint, Store
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.loop import Process, SimulationLoop
from onbeat.testing.simulation.model_store import SPLIT, ModelStore
from onbeat.testing.simulation.options import EXTRA_RATES, RATES, SimulationOptions

HANG_SECONDS: Final = 5.0
"""When a driver gives up a call that nobody answers."""

LISTEN: Final = frozenset({"listen", "url"})
PLAIN: Final = frozenset({"open", "close", "doctor"})
READS: Final = frozenset(
    [
        "abandoned_jobs",
        "alerts",
        "attempts",
        "audit",
        "begun_at",
        "bulk",
        "bulks",
        "count_depths",
        "count_ended",
        "count_jobs",
        "dead_letter_heads",
        "dead_letters",
        "dead_letters_by_id",
        "dispositions",
        "doubles_of",
        "due_schedules",
        "event_schedules",
        "events",
        "events_by_id",
        "events_of_job",
        "fault",
        "fault_jobs",
        "faults",
        "flow_counts",
        "forgotten_between",
        "group_depths",
        "held_key",
        "held_leases",
        "job",
        "jobs",
        "jobs_by_id",
        "keyed_answer",
        "keyed_jobs",
        "keys",
        "latest_dispositions",
        "log_lines",
        "newest_sample",
        "next_bulk",
        "next_plan_at",
        "now",
        "occurrence_jobs",
        "oldest_history",
        "open_waits",
        "overdue_jobs",
        "pulses",
        "queue_names",
        "queues",
        "run_counts",
        "runs_between",
        "samples",
        "schedule",
        "schedule_by_key",
        "schedules",
        "schedules_by_id",
        "schedules_of_owner",
        "silences",
        "skips_between",
        "stats",
        "stream_batches",
        "stream_watchers",
        "transitions",
        "unrouted_events",
        "wanted_types",
        "watched_queues",
        "workers",
    ]
)
"""Verbs that write nothing: they are answered while the store refuses writes."""


class Fate(StrEnum):
    """What becomes of one call.

    NOT_DONE: it raises and has done nothing. ANSWER_LOST: it is done, and raises all the same, so
    that its caller cannot know. HANGS: the same or not, and the caller learns it late. LATE: it is
    done, and its answer comes within three leases.
    """

    DONE = "done"
    NOT_DONE = "not done"
    ANSWER_LOST = "answer lost"
    HANGS = "hangs"
    LATE = "late"


FATES: Final = {
    Fate.NOT_DONE: "errors",
    Fate.ANSWER_LOST: "lost_answers",
    Fate.HANGS: "hangs",
    Fate.LATE: "late_answers",
}
"""The rates of what can become of a call, in the order in which they are drawn."""


class StoreServer:
    """Where the store runs: it goes on with what it was sent when the sender has died.

    `is_down`: no call is answered. `is_read_only`: writes are refused.
    """

    def __init__(
        self,
        store: ModelStore,
        loop: SimulationLoop,
        options: SimulationOptions,
        chance: Chance,
        journal: Journal,
    ) -> None:
        self.store = store
        self.loop = loop
        self.options = options
        self.chance = chance
        self.journal = journal
        self.is_down = False
        self.is_read_only = False
        self.is_healed = False
        rates = (*RATES, *EXTRA_RATES)
        self.rates: dict[str, float] = {name: getattr(options, name) for name in rates}
        self.fates = {fate: self.rates[name] for fate, name in FATES.items() if self.rates[name]}
        self.delays = options.delays
        self.process = loop.new_process("store")
        self.links: list[StoreLink] = []
        store.transaction.on_hints = self.tell_all

    def tell_all(self, hints: Sequence[Hint]) -> None:
        for link in self.links:
            if link.listeners and not link.is_cut:
                for hint in hints:
                    link.hear(hint)

    def heal(self) -> None:
        """Nothing goes wrong by chance any more."""
        self.is_healed, self.is_down, self.is_read_only = True, False, False
        self.rates = dict.fromkeys(self.rates, 0.0)
        self.fates, self.delays = {}, 0.0

    def draws(self, name: str) -> bool:
        rate = self.rates[name]
        return rate > 0 and self.chance.fraction() < rate

    def fate(self) -> Fate:
        for fate, rate in self.fates.items():
            if self.chance.fraction() < rate:
                return fate
        return Fate.DONE

    def way(self) -> float:
        """Seconds of one way of a call."""
        fraction = self.chance.fraction
        seconds = self.options.latency * (0.5 + fraction())
        if self.delays and fraction() < self.delays:
            seconds += 2.0 * fraction()
        return seconds


class StoreLink:
    """One process's way to the store, which is out of its reach while `is_cut`."""

    url = "memory://"
    has_slots = False

    def __init__(self, server: StoreServer, process: Process) -> None:
        self.server = server
        self.process = process
        self.is_cut = False
        self.listeners: list[Callable[[Hint], None]] = []
        server.links.append(self)

    @property
    def store(self) -> Store:
        """This as what it implements, verb by verb."""
        return cast("Store", self)

    async def open(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        if self in self.server.links:
            self.server.links.remove(self)

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        self.listeners.append(on_hint)

        def stop() -> None:
            if on_hint in self.listeners:
                self.listeners.remove(on_hint)

        return stop

    def hear(self, hint: Hint) -> None:
        """Pass on a hint, late; it may be lost or come twice."""
        server = self.server
        if hint is Hint.WORKERS:  # no kernel watches the processes of a model
            return
        if server.draws("hints_lost"):
            return
        for _ in range(2 if server.draws("hints_doubled") else 1):
            server.loop.call_in(self.process, server.way(), self.tell, hint)

    def tell(self, hint: Hint) -> None:
        for on_hint in tuple(self.listeners):
            on_hint(hint)

    def __getattr__(self, name: str) -> Callable[..., "asyncio.Future[Any]"]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> asyncio.Future[Any]:
            return StoreCall(self, name, args, kwargs).answer

        self.__dict__[name] = call
        return call


class StoreCall:
    """One call of a verb, on its way to the store and back."""

    def __init__(
        self, link: StoreLink, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        server = link.server
        self.link = link
        self.verb = verb
        self.args = args
        self.kwargs = kwargs
        self.answer: asyncio.Future[Any] = asyncio.Future(loop=server.loop)
        self.fate = server.fate() if server.fates else Fate.DONE
        server.loop.call_in(server.process, server.way(), self.arrive)

    def arrive(self) -> None:
        """The store has the call; its sender may be dead by now."""
        server = self.link.server
        refusal = self.refusal()
        if refusal is not None:
            self.reply(error=Unavailable(f"{self.verb}: {refusal}"))
            return
        if self.verb in SPLIT and not server.options.serial:
            server.loop.call_soon(self.go_on, self.run(), context=server.process.context)
            return
        try:
            self.run().send(None)
        except StopIteration as result:
            self.reply(result.value)
        except Exception as error:  # noqa: BLE001  judged below
            self.fail(error)
        else:
            raise AssertionError(f"{self.verb} waits for something, and is not named in SPLIT")

    def run(self) -> Coroutine[Any, Any, Any]:
        verb: Callable[..., Coroutine[Any, Any, Any]] = getattr(self.link.server.store, self.verb)
        return verb(*self.args, **self.kwargs)

    def go_on(self, verb: Coroutine[Any, Any, Any], _: object = None) -> None:
        """Run the verb until it lets others go on, as a task would, which costs more to make."""
        try:
            awaited: asyncio.Future[None] = verb.send(None)
        except StopIteration as result:
            self.reply(result.value)
        except Exception as error:  # noqa: BLE001  judged below
            self.fail(error)
        else:
            context = self.link.server.process.context
            awaited.add_done_callback(partial(self.go_on, verb), context=context)

    def fail(self, error: Exception) -> None:
        """Errors of Onbeat are answers; others are found inconsistencies."""
        if not isinstance(error, OnbeatError):
            self.link.server.journal.violate("I18", f"{self.verb} raised {error!r}")
            error = Unavailable(f"{self.verb} failed")
        self.reply(error=error)

    def refusal(self) -> str | None:
        server = self.link.server
        if self.link.is_cut or server.is_down:
            return "the store does not answer"
        if server.is_read_only and self.verb not in READS:
            return "the store refuses writes"
        if self.fate is Fate.NOT_DONE or (self.fate is Fate.HANGS and server.chance.happens(0.5)):
            return "the connection was lost"
        return None

    def reply(self, result: Any = None, error: Exception | None = None) -> None:
        server, fate = self.link.server, self.fate
        outcome = ""
        if fate not in {Fate.DONE, Fate.LATE} or error is not None:
            error = error or self.lost_answer()
            outcome = f"{fate} {type(error).__name__}"
        way = HANG_SECONDS if fate is Fate.HANGS else server.way()
        if fate is Fate.LATE:
            way += 3.0 * server.options.lease * server.chance.fraction()
        server.journal.note(server.loop.at, self.link.process.name, self.verb, outcome)
        server.loop.call_in(self.link.process, way, self.deliver, result, error)

    def lost_answer(self) -> Unavailable:
        return Unavailable(f"{self.verb}: the answer was lost")

    def deliver(self, result: Any, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)
