"""The webhook's outside: its HTTPS server, its certificates, its metrics, and the desk where questions are answered."""
