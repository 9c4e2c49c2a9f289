"""Copies all data of one store into another."""
