"""What decides, still pure: queue, cycle, diagnosis, explain. `Engine.handle` is the only way to change state."""
