"""What must not change unseen: `make golden` compares it with `golden.json`.

`record` says what is kept of a thing and when two differ. `episodes`, `learning` and `runs` make
the things, each by its name. They list what there is (environments, forms, algorithms, presets) by
themselves, so what is new has no value yet and is told.
"""
