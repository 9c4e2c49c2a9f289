"""Records of the domain: frozen, without I/O and without a clock."""
