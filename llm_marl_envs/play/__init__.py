"""Environments by id, episodes of a team, and the contract that every environment keeps."""
