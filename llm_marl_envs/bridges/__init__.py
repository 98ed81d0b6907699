"""Ways to and from other libraries, one file each; import them by name."""
