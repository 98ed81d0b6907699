"""One file per environment; importing this package imports none of them."""
