"""Onbeat inside other frameworks: Django, FastAPI, Flask, pytest. Each module needs its own one."""
