"""Arithmetic for a team: cards and questions about them, rows of mathematics."""
