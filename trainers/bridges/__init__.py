"""Ways to other trainers that need tokens, one file each; import them by name."""
