"""What a component serves to probes, operators and Prometheus over HTTPS."""
