"""Store adapters, one package or module each."""
