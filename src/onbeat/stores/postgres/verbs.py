"""The verbs of this database, by name."""

from onbeat.stores.postgres import leases
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.dialect_verbs import DialectVerbs

VERBS = DialectVerbs[Transaction](
    abandoned_jobs=leases.abandoned_jobs,
)
