"""Workload controllers, each small: they make pods, replace lost ones and remove surplus ones.

`loop` finds out which owners need a look; the other modules each know one kind. The simulator uses `expansion` in place
of all of them.
"""
