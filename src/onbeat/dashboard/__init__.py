"""The operator's view: pages over the operations, rendered on the server."""
