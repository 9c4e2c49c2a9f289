"""A store in the memory of one process: the reference that the others are held against."""

from onbeat.stores.memory.store import MemoryStore as MemoryStore
