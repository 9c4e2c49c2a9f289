"""What the loops of one process depend on."""

import msgspec

from onbeat.engine.worker import Runners
from onbeat.model.worker import WorkerRecord
from onbeat.ports.clock import Clock
from onbeat.ports.liveness import Liveness
from onbeat.ports.randomness import Randomness
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.store import Store
from onbeat.ports.target import Lanes
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.plans import Compile


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the loops of one process."""

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
