"""The disk under a store."""

import shutil
from pathlib import Path

from onbeat.stores.sqlite.transaction import Transaction


def free_percent(transaction: Transaction, path: str) -> float:
    """What a store may still take, as a part of its disk.

    Pages of the file that pruning has emptied count as free: the file does not shrink. The whole is
    what may be written at all, as `df` reckons it, since some file systems keep a part for root;
    one that tells of no size at all has room.
    """
    usage = shutil.disk_usage(Path(path).resolve().parent)
    pages = transaction.value("PRAGMA freelist_count")
    empty: int = pages * transaction.value("PRAGMA page_size")
    whole = usage.used + usage.free
    return 100 * (usage.free + empty) / whole if whole else 100.0
