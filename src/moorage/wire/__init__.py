"""Where Kubernetes JSON and YAML become core values, and core values become patches: narrow structs, one per kind."""
