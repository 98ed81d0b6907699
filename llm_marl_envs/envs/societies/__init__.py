"""Societies of many seats whose interests are mixed, over many rounds."""
