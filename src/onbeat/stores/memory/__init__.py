"""The in-memory store of one process: the reference for the other stores."""

from onbeat.stores.memory.store import MemoryStore as MemoryStore
