"""The offsets of a topic that were handed out, and those that may be committed."""

import itertools
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

UNCHANGED: Final = -1
TURNS: Final = itertools.count(1)


class Receipt(NamedTuple):
    """`turn` distinguishes successive assignments of the partition to this process."""

    partition: int
    offset: int
    turn: int


class PartitionOffsets:
    """One partition while it is assigned to this consumer."""

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.open: dict[int, None] = {}
        self.after = UNCHANGED
        self.committed = UNCHANGED

    def position(self) -> int:
        """The first unacknowledged offset."""
        return next(iter(self.open), self.after)


class OffsetTracker:
    """Acknowledgements wait for those before them: Kafka has one offset per partition and group.

    Memory use is proportional to the messages that are handed out and not acknowledged.
    """

    def __init__(self) -> None:
        self.partitions: dict[int, PartitionOffsets] = {}

    def assign(self, partitions: Iterable[int]) -> None:
        turn = next(TURNS)
        self.partitions |= {partition: PartitionOffsets(turn) for partition in partitions}

    def revoke(self, partitions: Iterable[int]) -> None:
        """The partitions were reassigned; acknowledgements of their messages are ignored."""
        for partition in partitions:
            self.partitions.pop(partition, None)

    def hand_out(self, partition: int, offset: int) -> Receipt | None:
        """Offsets of a partition come in order. None for a partition that is not assigned here."""
        line = self.partitions.get(partition)
        if line is None:
            return None
        line.open[offset] = None
        line.after = offset + 1
        return Receipt(partition, offset, line.turn)

    def holds(self, receipt: Receipt) -> bool:
        line = self.partitions.get(receipt.partition)
        return line is not None and line.turn == receipt.turn and receipt.offset in line.open

    def finish(self, receipts: Iterable[Receipt]) -> None:
        for receipt in receipts:
            if self.holds(receipt):
                del self.partitions[receipt.partition].open[receipt.offset]

    def outstanding(self) -> int:
        return sum(len(line.open) for line in self.partitions.values())

    def unreported_positions(self, partitions: Collection[int] | None = None) -> dict[int, int]:
        """Positions to commit, of these or all partitions; they count as committed from now on."""
        answer = dict[int, int]()
        for partition, line in self.partitions.items():
            wanted = partitions is None or partition in partitions
            if wanted and (position := line.position()) not in {UNCHANGED, line.committed}:
                answer[partition] = line.committed = position
        return answer

    def forget_report(self, partitions: Iterable[int]) -> None:
        """The commit failed; the positions are to be committed again."""
        for partition in partitions:
            if partition in self.partitions:
                self.partitions[partition].committed = UNCHANGED
