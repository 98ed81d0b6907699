"""Numbers of episodes: estimates with intervals, metrics, results, comparisons, tables."""
