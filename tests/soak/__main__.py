"""`make soak HOURS=8 STORE=all SEED=1 RESUME=.run/soak.jsonl`: chaos, with a check every 10 minutes.

HOURS are those of each store, with what the file has of it already. A violation ends the soak.
"""

import argparse
import sys
from pathlib import Path

from soak.run import STORES, Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, default=Path(".run/soak.jsonl"))
    parser.add_argument("--chunk", type=float, default=10.0, metavar="MINUTES")
    request = parser.parse_args()
    soak = Soak(request.resume, request.seed, request.chunk * 60)
    stores = STORES if request.store == "all" else (request.store,)
    with soak.with_residents(stores):
        while waiting := [s for s in stores if soak.seconds(s) < request.hours * 3600]:
            store = min(waiting, key=soak.seconds)
            try:
                say(soak.run_chunk(store))
            except AssertionError as violation:
                say(str(violation))
                say(soak.sums())
                return 1
            say(soak.sums())
    return 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
