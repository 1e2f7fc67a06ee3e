"""Wiring only: build, start, stop."""
