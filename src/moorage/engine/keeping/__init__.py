"""The keeper's decisions: what happens to pods after they were placed. Pure, like the rest of the engine.

`keeper.Keeper.handle(events, now) -> (commands, next_wakeup)` is the only door. `departures` knows which nodes are
about to go, `proofs` where their pods could stand instead, `moves` which pods are on their way, `allowances` what
disruption budgets permit. What is moved, and why, is decided by the concerns: `fallback` (nodes that go), `spot_return`
(spot capacity that came back) and `repairs` (workloads that do not stand as their rule says; `upkeep` keeps the books
about them).
"""
