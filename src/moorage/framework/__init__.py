"""What a plugin is: extension points, statuses, profiles, plugin arguments, the registry and the runner."""
