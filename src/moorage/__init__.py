"""Moorage: a Kubernetes scheduler that is programmed in Python."""
