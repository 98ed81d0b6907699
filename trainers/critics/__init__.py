"""What a situation is worth: what critics see (`sight.py`), and one file for each kind of them."""
