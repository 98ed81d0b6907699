"""Playing a plan of episodes: runs, runs that go on, runs in pairs."""
