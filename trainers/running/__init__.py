"""A long run: checkpoints, logs, transcripts, what a person sees of it."""
