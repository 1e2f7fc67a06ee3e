"""Shipped for plugin authors: builders and the plugin conformance checks. Nothing in Moorage imports it."""
