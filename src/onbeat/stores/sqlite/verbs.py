"""The verbs of this database, by name."""

from onbeat.stores.sql.dialect_verbs import DialectVerbs
from onbeat.stores.sqlite import (
    leases,
    prune,
    queues,
)
from onbeat.stores.sqlite.coroutines import in_thread
from onbeat.stores.sqlite.transaction import Transaction

VERBS = DialectVerbs[Transaction](
    overdue_jobs=in_thread(prune.overdue_jobs),
    abandoned_jobs=in_thread(leases.abandoned_jobs),
    queues=in_thread(queues.queues),
    stats=in_thread(queues.stats),
)
