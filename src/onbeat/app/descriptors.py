"""How many connections the limit of open files allows."""

from onbeat.model.errors import Misconfigured
from onbeat.model.limits import CONNECTIONS_MAX, CONNECTIONS_MIN, DESCRIPTORS_KEPT
from onbeat.targets.descriptors import descriptors_max
from onbeat.telemetry.structured_log import Log

log = Log("onbeat.api")


def connections_max(wanted: int | None, descriptors: int | None, concurrency: int) -> int:
    """The maximum of open API connections; `wanted` is the setting.

    The rest is kept for store, brokers and log, and one for each concurrent callback. Raises
    `Misconfigured` where `wanted` is over the limit.
    """
    if descriptors is None:
        return wanted or CONNECTIONS_MAX
    most = descriptors - DESCRIPTORS_KEPT
    if wanted is not None and wanted > max(most, CONNECTIONS_MIN):
        raise Misconfigured(
            f"api.connections_max: {wanted} is more than the limit of {descriptors} open files "
            f"leaves room for; set at most {max(most, CONNECTIONS_MIN)}, or raise `ulimit -n` "
            "(LimitNOFILE= in systemd)",
            "api.connections_max",
        )
    # Only callbacks need a descriptor, so they reserve at most half.
    room = most - min(concurrency, descriptors // 2)
    if descriptors < concurrency + DESCRIPTORS_KEPT + CONNECTIONS_MIN:
        log.warning("descriptors.low", open_files_max=descriptors, concurrency=concurrency)
    return wanted or min(CONNECTIONS_MAX, max(room, CONNECTIONS_MIN))


def connections_here(wanted: int | None, concurrency: int) -> int:
    """The same for the limits of this process."""
    return connections_max(wanted, descriptors_max(), concurrency)
