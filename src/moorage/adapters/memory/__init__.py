"""The embedded cluster: an API server's storage, workload controllers and kubelets in one deterministic process.

No threads, no asyncio, no wall clock; time is `clock.Clock`, chance comes from seeds. The same calls give the same
cluster. `cluster.EmbeddedCluster` is the way in; the simulator, the demo and the contract tests use it.
"""
