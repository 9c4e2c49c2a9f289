"""What the loops of one process depend on."""

from collections.abc import Callable

import msgspec

from onbeat.engine.alerts import Look
from onbeat.engine.job_log import JobLog
from onbeat.engine.outages import OutageReporter
from onbeat.engine.side_thread import SideThread
from onbeat.model.worker import WorkerRecord
from onbeat.ports.clock import Clock
from onbeat.ports.expressions import NO_EXPRESSIONS, Expressions
from onbeat.ports.liveness import Liveness
from onbeat.ports.randomness import Randomness
from onbeat.ports.sessions import NO_SESSIONS, ServerSessions
from onbeat.ports.side_loop import OpenSideLoop
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.store import Store
from onbeat.ports.target import Lanes, Runners
from onbeat.ports.telemetry import ReadCounters, Telemetry
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.live_feed import LiveFeed
from onbeat.rules.plans import Compile


def unknown_memory() -> int | None:
    return None


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the loops of one process. Without `read_counters` it writes no history.

    `side_loop` opens the event loop from which heartbeats are sent. `memory` reads what the process
    holds, in bytes.
    """

    store: Store
    clock: Clock
    randomness: Randomness
    liveness: Liveness
    telemetry: Telemetry
    runners: Runners
    lanes: Lanes
    identity: WorkerRecord
    compile: Compile
    sidecar: Sidecar = NO_SIDECAR
    side_loop: OpenSideLoop = SideThread
    sessions: ServerSessions = NO_SESSIONS
    expressions: Expressions = NO_EXPRESSIONS
    outages: OutageReporter | None = None
    look: Look | None = None
    read_counters: ReadCounters | None = None
    faults: FaultTally = msgspec.field(default_factory=FaultTally)
    log: JobLog = msgspec.field(default_factory=JobLog)
    live: LiveFeed = msgspec.field(default_factory=LiveFeed)
    memory: Callable[[], int | None] = unknown_memory
