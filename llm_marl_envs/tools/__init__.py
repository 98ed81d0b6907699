"""What a seat may call: search, calculate, and what others add; see `wrappers/tools.py`."""
