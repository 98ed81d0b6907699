"""Consultations: one asks and answers, the other knows; see `consult.py`."""
