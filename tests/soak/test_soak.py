"""A soak adds up over its runs, takes another seed for each chunk, and stops at a violation."""

import asyncio
import random
from collections import Counter

import pytest

from chaos.client import Client
from chaos.run import Outcome
from chaos.stub import NUMBER, Queue
from chaos.verdict import judge
from soak import run
from soak.run import Soak


class Stub:
    """In place of a fleet under chaos: the queue of one process that may break a promise."""

    def __init__(self, folder, wrong=None):
        self.folder = folder
        self.wrong = wrong
        self.asked = []

    def __call__(self, store, seconds, seed, over):
        self.asked.append((store, seconds, seed, over))
        place = self.folder / str(len(self.asked))
        place.mkdir()
        return asyncio.run(self.chaos(Queue(place, self.wrong)))

    async def chaos(self, queue):
        async with queue.serving() as address:
            client = Client(queue.place, [address], random.Random(1))
            async with client.sending():
                for _ in range(NUMBER):
                    await client.ask("work", [0.0])
        counts = Counter(kills=3, partitions=1)
        return Outcome(judge(queue.journals()), ["kill"], client.refusals, counts)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PROOF_COUNTS", "")  # what a soak sets is taken back
    return tmp_path


def test_runs_add_up_in_one_file(place):
    stub = Stub(place)
    for _ in range(2):
        soak = Soak(place / "soak.jsonl", 7, 600.0, stub)
        soak.run_chunk("postgres")
        soak.run_chunk("mysql")
    assert [seed for store, _, seed, _ in stub.asked if store == "postgres"] == [7, 8]
    assert len({over for _, _, _, over in stub.asked}) == 2
    postgres, mysql = soak.sums().splitlines()
    assert postgres.startswith("postgres hours=0.00 ")
    assert "kills=6 restarts=0 cuts=0 partitions=2 violations=0" in postgres
    assert mysql.startswith("mysql ")
    assert soak.seconds("postgres") > 0
    assert soak.seconds("sqlite") == 0


def test_a_chunk_on_sqlite_cuts_its_power(place, monkeypatch):
    monkeypatch.setattr(run, "CUTS", 3)
    soak = Soak(place / "soak.jsonl", 1, 600.0, Stub(place))
    soak.run_chunk("sqlite")
    assert " cuts=3 " in soak.sums()


def test_a_violation_is_told_with_its_seed(place):
    soak = Soak(place / "soak.jsonl", 5, 600.0, Stub(place, "stores a job twice"))
    with pytest.raises(AssertionError, match=r"(?s)seed 5 .*doubled: "):
        soak.run_chunk("postgres")
    assert "violations=1" in soak.sums()
