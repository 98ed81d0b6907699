"""Files: whole or absent, JSON, locks."""
