"""The journal: what a scheduler was told and what it decided, on disk, so that every decision can be made again."""
