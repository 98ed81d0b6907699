"""Rules of environments with fixed roles: who hears whom, quotations, claims, scores, experts."""
