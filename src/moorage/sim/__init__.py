"""Virtual clock, embedded cluster and the same engine: scenarios and reports."""
