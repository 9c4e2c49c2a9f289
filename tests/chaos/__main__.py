"""`make chaos MINUTES=10 STORE=sqlite BROKER=redis SEED=1`: attack a fleet for as long as one likes."""

import argparse
import asyncio
import random
import sys
from collections import Counter

from chaos.run import chaos
from chaos.verdict import table
from crash.brokers import KINDS
from proof_counts import counting

STORES = ("sqlite", "postgres", "mysql")


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--store", choices=(*STORES, "all"), default="sqlite")
    parser.add_argument("--broker", choices=sorted(KINDS), default=None)
    parser.add_argument("--seed", type=int, default=None)
    request = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if request.seed is None else request.seed
    stores = STORES if request.store == "all" else (request.store,)
    return max(attacked(store, request.minutes * 60, seed, request.broker) for store in stores)


def attacked(store: str, seconds: float, seed: int, over: str | None) -> int:
    say(f"{store}: {seconds / 60:g} min of chaos, SEED={seed}")
    with counting("chaos", store) as counts:
        outcome = asyncio.run(chaos(store, seconds, seed, over=over))
        counts.add(**outcome.counts, violations=0 if outcome.is_good else 1)
    say(f"faults: {dict(sorted(Counter(outcome.faults).items()))}")
    say(table(store, outcome.verdict))
    for refusal in outcome.refusals[:5]:
        say(f"  refused: {refusal}")
    return 0 if outcome.is_good else 1


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


sys.exit(main())
