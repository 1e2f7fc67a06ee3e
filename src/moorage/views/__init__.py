"""What people see of a cluster: a world that gets all events and never decides, and its pages as plain values."""
