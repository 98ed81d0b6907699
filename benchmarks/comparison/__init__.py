"""Parts of `benchmarks.compare_algorithms`: its files, its numbers, its runs of language models."""
