"""Who samples."""
