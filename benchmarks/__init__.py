"""Benchmarks of Onbeat and its peers on this machine in one run; `make bench` runs them all."""
