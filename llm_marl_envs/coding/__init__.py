"""Rules of the cooperative coding tasks: procedural functions, parsing of programs, scoring."""
