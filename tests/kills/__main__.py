"""`make kills KILLS=1000 STORE=all SEED=1`: kill processes of a fleet, with many jobs in flight."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kills.cycles import kill_again_and_again
from proof_counts import counting

STORES = ("sqlite", "postgres", "mysql")


def main() -> int:
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    request = parser.parse_args()
    stores = STORES if request.store == "all" else (request.store,)
    for store in stores:
        kill(store, request.kills, request.seed)
    return 0


def kill(store: str, kills: int, seed: int) -> None:
    sums: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onbeat-kills-") as folder:
        episodes = kill_again_and_again(store, Path(folder), kills, seed)
        while True:
            with counting("kill cycles", store) as counts:
                figures = next(episodes, None)
                if figures is None:
                    return
                counts.add(kills=figures["kills"])
            sums += figures
            seconds = time.monotonic() - began
            sys.stdout.write(f"{store}: {dict(sums)} in {seconds:.0f} s, no violation\n")
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
