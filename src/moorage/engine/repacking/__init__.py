"""Repacking: pods are moved so that nodes become empty, or so that a pod or gang that waits finds room.

Pure planning over a state; nothing is ordered here. `census` says which pods may move and which nodes could be empty,
`bound` how many at most, `emptying` and `room` search for moves and prove them. The keeper carries plans out
(`keeping.repack`); `simulate --repack` and the dashboard show them.
"""
