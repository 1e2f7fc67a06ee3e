"""Pods that leave their places: what goes with them, and which of them may be disturbed."""
