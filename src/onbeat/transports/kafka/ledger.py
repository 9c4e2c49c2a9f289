"""Which offsets of a topic were handed out, and how far a group may be said to have come."""

import itertools
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

UNCHANGED: Final = -1
TURNS: Final = itertools.count(1)


class Receipt(NamedTuple):
    """`turn` tells apart the times at which consumers of this process were given the partition."""

    partition: int
    offset: int
    turn: int


class Line:
    """One partition, as long as this consumer has it."""

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.open: dict[int, None] = {}
        self.after = UNCHANGED
        self.committed = UNCHANGED

    def position(self) -> int:
        """The first offset that is not done with: all before it are."""
        return next(iter(self.open), self.after)


class Ledger:
    """Kafka knows one number of a partition and group, so what is done out of turn waits for what
    came before it. It holds as many offsets as are handed out and not done with.
    """

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}

    def assign(self, partitions: Iterable[int]) -> None:
        turn = next(TURNS)
        self.lines |= {partition: Line(turn) for partition in partitions}

    def revoke(self, partitions: Iterable[int]) -> None:
        """What was handed out of these is another's; what is said of it is void."""
        for partition in partitions:
            self.lines.pop(partition, None)

    def hand_out(self, partition: int, offset: int) -> Receipt | None:
        """Offsets of a partition come in order. None for a partition that this one has not."""
        line = self.lines.get(partition)
        if line is None:
            return None
        line.open[offset] = None
        line.after = offset + 1
        return Receipt(partition, offset, line.turn)

    def holds(self, receipt: Receipt) -> bool:
        line = self.lines.get(receipt.partition)
        return line is not None and line.turn == receipt.turn and receipt.offset in line.open

    def finish(self, receipts: Iterable[Receipt]) -> None:
        for receipt in receipts:
            if self.holds(receipt):
                del self.lines[receipt.partition].open[receipt.offset]

    def outstanding(self) -> int:
        return sum(len(line.open) for line in self.lines.values())

    def news(self, partitions: Collection[int] | None = None) -> dict[int, int]:
        """Positions that Kafka has not been told, of these or all partitions; now it will be."""
        told = dict[int, int]()
        for partition, line in self.lines.items():
            wanted = partitions is None or partition in partitions
            if wanted and (position := line.position()) not in {UNCHANGED, line.committed}:
                told[partition] = line.committed = position
        return told

    def not_told(self, partitions: Iterable[int]) -> None:
        """Kafka was not told after all."""
        for partition in partitions:
            if partition in self.lines:
                self.lines[partition].committed = UNCHANGED
