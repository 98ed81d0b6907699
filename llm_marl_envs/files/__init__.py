"""Files of runs and results: whole or absent, JSON, manifests, datasets of episodes."""
