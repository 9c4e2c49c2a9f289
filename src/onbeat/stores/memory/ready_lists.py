"""The next due job of many ready lists, without a read of each list for each job."""

from collections.abc import Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.memory.limits import ClaimLimits
from onbeat.stores.memory.tables import ReadyList


class ListHead(NamedTuple):
    """The first job of a ready list; heads have the order of claims."""

    priority: int
    due_at: datetime
    id: JobId
    line: ReadyList


class Turn(NamedTuple):
    """A ready list of a fair queue and its first job; the least of a priority is next."""

    turn: int
    due_at: datetime
    id: JobId
    line: ReadyList


class ReadyListHeads:
    """The heads of these ready lists, as of the last read of each."""

    def __init__(self, admission: ClaimLimits, ready_lists: Sequence[ReadyList]) -> None:
        self.admission = admission
        self.lines = ready_lists
        self.refresh()

    def refresh(self) -> None:
        """Call this when lists may have new jobs; removed jobs are noticed without it."""
        heads = (self.head_of(line) for line in self.lines)
        self.heap = [head for head in heads if head is not None]
        heapify(self.heap)
        self.rings: dict[tuple[str, int], list[Turn]] = {}

    def head_of(self, ready_list: ReadyList) -> ListHead | None:
        keys = self.admission.tables.ready_lists.get(ready_list)
        first = None if keys is None else keys.first()
        if first is None or first[0] > self.admission.now or not self.admission.admits(ready_list):
            return None
        return ListHead(ready_list.priority, *first, ready_list)

    def first(self) -> Job | None:
        """The next job to claim: by priority, then due time, then id, or by turns."""
        oldest = self.oldest()
        if oldest is None:
            return None
        line = oldest.line
        is_fair = self.admission.is_fair(line.queue)
        return self.admission.tables.jobs[self.next_in_ring(line) if is_fair else oldest.id]

    def oldest(self) -> ListHead | None:
        while self.heap:
            seen = self.heap[0]
            head = self.head_of(seen.line)
            if head == seen:
                return head
            if head is None:
                heappop(self.heap)
            else:
                heapreplace(self.heap, head)
        return None

    def next_in_ring(self, ready_list: ReadyList) -> JobId:
        """The next job of the list's queue and priority, which has at least one."""
        ring = self.ring_of(ready_list.queue, ready_list.priority)
        while True:
            seen = ring[0]
            turn = self.turn_of(seen.line)
            if turn == seen:
                return seen.id
            if turn is None:
                heappop(ring)
            else:
                heapreplace(ring, turn)

    def ring_of(self, queue: str, priority: int) -> list[Turn]:
        ring = self.rings.get((queue, priority))
        if ring is None:
            of_ring = (line for line in self.lines if line[:2] == (queue, priority))
            turns = (self.turn_of(line) for line in of_ring)
            ring = self.rings[queue, priority] = [turn for turn in turns if turn is not None]
            heapify(ring)
        return ring

    def turn_of(self, ready_list: ReadyList) -> Turn | None:
        head = self.head_of(ready_list)
        return (
            None
            if head is None
            else Turn(self.admission.turn(ready_list), head.due_at, head.id, ready_list)
        )
