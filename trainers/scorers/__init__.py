"""Scorers of outside texts that need torch; they come into the environments by name."""
