"""The debate environments and their rules: votes, experts, a judge."""
