"""OpenTelemetry traces: one trace per pod, from its creation to the bind. Only `export` loads OpenTelemetry."""
