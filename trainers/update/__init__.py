"""One update: episodes, returns, tensors, the optimiser's step."""
