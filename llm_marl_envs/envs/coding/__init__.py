"""Cooperative coding: the environment, procedural functions, parsing of programs, scoring."""
