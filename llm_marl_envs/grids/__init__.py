"""Rules of the grid environments: generators, search that verifies, symmetries, exact bounds."""
