"""The demo: an embedded cluster in which something always happens, and the same engine that schedules real ones.

`scenarios` says what happens when, `stage` lets it happen, `picture` is how it looks at one moment, `loop` keeps pace
with the wall clock. Nothing here prints: the caller of the loop passes in a view.
"""
