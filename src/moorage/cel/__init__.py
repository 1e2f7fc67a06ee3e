"""The Common Expression Language: expressions to closures, with types, costs and a limit on both cost and work.

The room knows nothing of Kubernetes: an `Environment` is given the variables, types and functions that expressions may
use. The semantics, messages and costs are those of cel-go.
"""
