"""The composition root: the only place that names adapters and puts them together."""
