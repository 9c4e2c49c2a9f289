"""The composition root: the only package that imports adapters and combines them."""
