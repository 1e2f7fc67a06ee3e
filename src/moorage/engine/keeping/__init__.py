"""The keeper's decisions: what happens to pods after they were placed. Pure, like the rest of the engine.

`keeper.Keeper.handle(events, now) -> (commands, next_wakeup)` is the only entry point. `departures` knows which nodes
are about to go away, `proofs` where their pods could run instead, `moves` which pods are being moved, `allowances` what
disruption budgets permit. What is moved, and why, is decided by the concerns: `fallback` (nodes that go away),
`spot_return` (pods that are not on the capacity where they belong, as `capacities` knows) and `repairs` (workloads that
deviate from their rule; `upkeep` keeps track of them).
"""
