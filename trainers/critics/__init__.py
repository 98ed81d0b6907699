"""What a situation is worth: what critics see (`sight.py`) and how they learn (`text_value.py`)."""
