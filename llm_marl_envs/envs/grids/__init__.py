"""The grid environments: generators, search that verifies, symmetries, exact bounds."""
