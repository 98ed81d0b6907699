"""Numbers of episodes: estimators, intervals, comparisons, tables."""
