"""Presets of the embedded model, before and after training, beside controls."""
