"""The environments, one folder per family; importing this package imports none of them."""
