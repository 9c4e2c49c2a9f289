"""Who sends jobs, by name: these, or the queue of a broker."""

from typing import Final

PROGRAM: Final = "program"
API: Final = "api"
RPC: Final = "rpc"
