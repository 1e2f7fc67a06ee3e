"""Experiments: many simulations of a file's inputs, configurations, changes and seeds, and what they measure."""
