"""The outside: Kubernetes, the embedded cluster. Siblings never import each other."""
