"""The webhook's outside: its HTTPS server, its certificates, its metrics, and the handler that answers reviews."""
