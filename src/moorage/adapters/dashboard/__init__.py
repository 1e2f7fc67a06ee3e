"""The dashboard's server: pages as files, data as JSON, news as server-sent events; for this machine by default."""
