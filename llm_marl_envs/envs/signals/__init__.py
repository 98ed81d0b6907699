"""Signalling games: objects, messages and what they can tell apart, scripted codes."""
