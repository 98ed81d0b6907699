"""Rules that the debate environments share: statements, votes, experts, a judge."""
