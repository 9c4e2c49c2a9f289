"""Deterministic simulation: the engine of a whole fleet on one loop with virtual time and faults.

`run_histories(seeds)` runs one history for each seed and returns a `SimulationReport`; its
`failures` are the histories that broke an invariant, with their seeds and their last events.
`python -m onbeat.testing.simulation` does the same.
"""

from onbeat.testing.simulation.invariants import INVARIANTS
from onbeat.testing.simulation.journal import Violation
from onbeat.testing.simulation.model_store import Guard, ModelStore
from onbeat.testing.simulation.options import SimulationOptions, draw_options
from onbeat.testing.simulation.swarm import (
    SimulatedHistory,
    SimulationReport,
    run_histories,
    run_history,
    shrink,
)

__all__ = [
    "INVARIANTS",
    "Guard",
    "ModelStore",
    "SimulatedHistory",
    "SimulationOptions",
    "SimulationReport",
    "Violation",
    "draw_options",
    "run_histories",
    "run_history",
    "shrink",
]
