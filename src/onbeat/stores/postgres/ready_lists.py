"""Ready lists, as claims find them.

The index `jobs_due` holds a ready list for each queue, priority and lane: the claimable jobs in the
order of their due times. Jobs with a group have separate indexes. A claim skips from list to list,
past those it may not take, so neither their number nor their length matters, and takes the first
jobs of those it may.
"""

READY = "NOT running AND blocked_by = 0 AND NOT held AND NOT lapsed"
LOOSE = f"{READY} AND grp IS NULL"
GROUPED = f"{READY} AND grp >= ''"
BY_GROUP = f"{READY} AND length(grp) > 0"
"""Ready jobs without a group, and those with one in two orders: each is an index's condition."""
IN_TIME = "due_at <= $2 AND (start_by IS NULL OR start_by >= $2)"
"""Ready jobs that may start at $2: due and not lapsed."""
MINE = "($5::text[] IS NULL OR next.queue = ANY($5)) AND next.queue <> ALL(ARRAY(TABLE paused))"
"""`next` is in one of the queues $5, or any, and not in a paused one."""

# The order of the index ends in (due_at, id): a seek with the greatest due time goes behind a list,
# with the smallest to its first job. A lane beyond all lanes ends a priority, the last priority
# ends a group, and a group beyond all groups ends a queue.
HEADS = """
    :name (:line, :head mine) AS (
      (SELECT :line, :head :mine
       FROM jobs AS next
       WHERE :kind AND :when
       ORDER BY :line, due_at, id LIMIT 1)
      UNION ALL
      SELECT next.*, :mine
      FROM :name AS here
      CROSS JOIN LATERAL (
        SELECT CASE WHEN here.mine THEN here.priority ELSE 32767::smallint END AS priority,
               CASE WHEN NOT here.mine THEN chr(1114111)
                    WHEN here.lane = ANY($4::text[]) THEN here.lane
                    ELSE coalesce((SELECT min(known.lane COLLATE "C")
                                   FROM unnest($4) AS known (lane)
                                   WHERE known.lane COLLATE "C" > here.lane), chr(1114111))
               END AS lane,
               CASE WHEN here.mine AND here.lane <> ALL($4) THEN -9223372036854775808
                    ELSE 9223372036854775807
               END AS due_at
      ) AS seek
      CROSS JOIN LATERAL (
        SELECT :line :then_head
        FROM jobs
        WHERE :kind
          AND (:line, due_at)
              > (:here, seek.priority, seek.lane COLLATE "C", seek.due_at)
        ORDER BY :line, due_at, id
        LIMIT 1
      ) AS next
    )
"""

NEXT_GROUP = """CASE WHEN here.mine THEN here.grp ELSE chr(1114111) END COLLATE "C" """


def list_heads(
    name: str,
    kind: str,
    *,
    mine: str,
    when: str = "TRUE",
    with_head: bool = False,
) -> str:
    """A recursive query `name`: the ready lists of one kind of jobs, LOOSE, GROUPED or BY_GROUP.

    It yields all lists of the claimant, and others that it skips from; none unless `when` holds.
    `mine` is the condition that the claimant may take from the queue of `next`; its lanes are $4.
    With BY_GROUP each group of a queue has its own lists; `with_head` adds their first jobs.
    """
    by_group = kind == BY_GROUP
    group = ", grp" if by_group else ""
    here = f"here.queue, {NEXT_GROUP}" if by_group else "here.queue"
    return (
        HEADS.replace(":line", f"queue{group}, priority, lane")
        .replace(":here", here)
        .replace(":head", "due_at, id," if with_head else "")
        .replace(":then_head", ", due_at, id" if with_head else "")
        .replace(":name", name)
        .replace(":kind", kind)
        .replace(":mine", mine)
        .replace(":when", when)
    )


def in_ready_list(kind: str, columns: str, where: str, limit: str) -> str:
    """The first jobs of `line`, of this kind, in order, for which `where` holds."""
    return f"""
        SELECT {columns}
        FROM jobs
        WHERE {kind}
          AND jobs.queue = line.queue
          AND jobs.priority = line.priority
          AND jobs.lane = line.lane
          AND {where}
        ORDER BY due_at, id
        LIMIT {limit}
    """  # noqa: S608  no value in it
