"""Who samples. Imports nothing: a server loads `vllm_noise` where this library is not installed."""
