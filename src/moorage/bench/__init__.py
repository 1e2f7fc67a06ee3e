"""The benchmarks, and the real control plane that they and the tests run against."""
