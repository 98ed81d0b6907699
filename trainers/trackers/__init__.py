"""Trackers of others beside the run's own log: what appears where is docs/trackers.md."""
