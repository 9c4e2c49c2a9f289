"""The next due job of many lines, without looking at each line for each job."""

from collections.abc import Sequence
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.memory.admission import Admission
from onbeat.stores.memory.tables import Line


class Head(NamedTuple):
    """The first job of a line; heads are in the order in which jobs are given out."""

    priority: int
    due_at: datetime
    id: JobId
    line: Line


class Turn(NamedTuple):
    """A line of a fair queue and its first job; the least comes next of those of one priority."""

    turn: int
    due_at: datetime
    id: JobId
    line: Line


class Heads:
    """The heads of these lines, as of the last look at each."""

    def __init__(self, admission: Admission, lines: Sequence[Line]) -> None:
        self.admission = admission
        self.lines = lines
        self.look_anew()

    def look_anew(self) -> None:
        """To be called when jobs may have come into lines; that they leave them is seen anyway."""
        heads = (self.head_of(line) for line in self.lines)
        self.heap = [head for head in heads if head is not None]
        heapify(self.heap)
        self.rings: dict[tuple[str, int], list[Turn]] = {}

    def head_of(self, line: Line) -> Head | None:
        keys = self.admission.tables.lines.get(line)
        first = None if keys is None else keys.first()
        if first is None or first[0] > self.admission.now or not self.admission.admits(line):
            return None
        return Head(line.priority, *first, line)

    def first(self) -> Job | None:
        """The job to be given out next: by priority, then due time, then id, or by turns."""
        oldest = self.oldest()
        if oldest is None:
            return None
        line = oldest.line
        is_fair = self.admission.is_fair(line.queue)
        return self.admission.tables.jobs[self.next_in_ring(line) if is_fair else oldest.id]

    def oldest(self) -> Head | None:
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

    def next_in_ring(self, line: Line) -> JobId:
        """Of the queue and priority of the line, in which there is a job."""
        ring = self.ring_of(line.queue, line.priority)
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

    def turn_of(self, line: Line) -> Turn | None:
        head = self.head_of(line)
        return None if head is None else Turn(self.admission.turn(line), head.due_at, head.id, line)
