"""Several stores as one, for callers: each record is in the cell of its slot."""

from onbeat.stores.cells.store import CellStore as CellStore
