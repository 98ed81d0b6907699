"""Networks of nodes that know their neighbours alone: graphs, problems, letters, experts."""
