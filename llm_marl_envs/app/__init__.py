"""Pages in a browser: play an episode, watch a run while it trains, compare teams.

`site.py` is the program behind the addresses, `guards.py` what it refuses, `serve.py` serves it.
What pages do is in `games.py` (an episode with people in it), `matches.py` (two teams side by side,
members of teams that change places) and `watching.py` (runs). Who may sit is `players.py`, what may
be asked of an environment `forms.py`, what is kept in threads `work.py`. Pages are made here from
templates that escape every value; the one script fetches parts of a page anew.
"""
