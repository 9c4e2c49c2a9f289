"""The verbs of this database, by name."""

from onbeat.stores.sql.dialect_verbs import DialectVerbs
from onbeat.stores.sqlite import leases
from onbeat.stores.sqlite.transaction import Transaction, in_thread

VERBS = DialectVerbs[Transaction](
    abandoned_jobs=in_thread(leases.abandoned_jobs),
)
