"""What surrounds the keeper: its sentences for people, its numbers for dashboards, and the pretence of a dry run."""
