"""Teams that tell each other nothing: the best rules known for the entries of the benchmark.

A rule reads the observation of its seat and writes nothing until it must act. It may know how tasks
are drawn, and not which were drawn. So what it earns is what a team can have without talk, or more
than that has been found (`docs/bench.md`). Where texts are the work itself and there is no talk
(coding, writing), one seat works by what it knows, and the others always write the same.
"""
