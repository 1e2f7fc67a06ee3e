"""Arguments and printing only."""
