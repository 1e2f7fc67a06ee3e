"""What people see of a cluster: a world that is told everything and never decides, and its pages as plain values."""
