"""Scripted experts: what they can do, the policy that plays them, what they show."""
