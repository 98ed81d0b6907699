"""Questions about teams: cross-play, contributions, baselines."""
