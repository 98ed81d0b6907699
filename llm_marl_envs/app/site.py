"""The program behind the addresses.

A page is made on the server; its policy lets no script run but `app.js`, whatever a text holds.
Requests of other sites are refused. It binds to this machine alone unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from markupsafe import Markup

from llm_marl_envs.app import views
from llm_marl_envs.app.folders import Folders
from llm_marl_envs.app.forms import Filled, fields_of, whole_number
from llm_marl_envs.app.games import Game
from llm_marl_envs.app.guards import LOCAL, guarded, posted
from llm_marl_envs.app.matches import Match, Pairings
from llm_marl_envs.app.pages import page, part, style
from llm_marl_envs.app.players import YOU, Player, Players, able
from llm_marl_envs.app.watching import Watcher
from llm_marl_envs.app.work import TooManyError, Works
from llm_marl_envs.core.environment import TextEnv, task_source
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.records import episode_to_dict
from llm_marl_envs.core.specs import list_envs, spec
from llm_marl_envs.report.episodes import outcome
from llm_marl_envs.report.pairings import pairings

with Extra("app", "the app"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

FIRST_LOOK = 1.0
"""Seconds that a page waits for others to write, before it is sent and looks again by itself."""
MISTAKES = (ValueError, TypeError, ImportError)
HERE = Path(__file__).parent


class Site:
    """All pages.

    Args:
        folders: where runs, saved teams and models are looked for; nothing else is read.
        named: further players, as `--team` of other commands takes them.
        frames: origins whose pages may show this one in a frame.

    Raises:
        ValueError: as `Folders` and `Players`.
    """

    def __init__(
        self, folders: Sequence[str | Path], named: Sequence[str] = (), frames: Sequence[str] = ()
    ) -> None:
        self.folders = Folders(folders)
        self.players = Players(self.folders, named)
        self.works = Works()
        self.watcher = Watcher()
        self.frames = tuple(frames)

    def program(self, hosts: Sequence[str] = LOCAL) -> Starlette:
        """The ASGI program; `hosts` are the names that it answers to, "*" any."""
        routes = [
            Route("/", self.home),
            Route("/play", self.environments),
            Route("/play/{env_id}", self.form),
            Route("/compare", self.environments),
            Route("/compare/{env_id}", self.form),
            Route("/games", self.begin_game, methods=["POST"]),
            Route("/games/{key}", self.game),
            Route("/games/{key}/part", self.game),
            Route("/games/{key}/act", self.act, methods=["POST"]),
            Route("/games/{key}/episode.jsonl", self.transcript),
            Route("/matches", self.begin_match, methods=["POST"]),
            Route("/matches/{key}", self.match),
            Route("/matches/{key}/part", self.match),
            Route("/pairings", self.begin_pairings, methods=["POST"]),
            Route("/pairings/{key}", self.pairing),
            Route("/pairings/{key}/part", self.pairing),
            Route("/watch", self.runs),
            Route("/watch/runs", self.watch),
            Route("/watch/runs/part", self.watch),
            Route("/style.css", self.style),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]
        guards = guarded(hosts, self.frames)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            self.works.close()

        handlers: dict[Any, Any] = {HTTPException: self.refused, TooManyError: self.busy}
        return Starlette(
            routes=routes, middleware=guards, exception_handlers=handlers, lifespan=lifespan
        )

    # -- pages that ask -------------------------------------------------------------------------
    def home(self, request: Request) -> Response:
        """What there is."""
        return page("home", request, environments=len(list_envs()))

    def environments(self, request: Request) -> Response:
        """Which environment to play or compare teams in."""
        return page("environments", request, specs=[spec(env_id) for env_id in list_envs()])

    def form(self, request: Request) -> Response:
        """The arguments, seats and players of an environment, filled in as the address says."""
        return self._form(request, request.path_params["env_id"], dict(request.query_params))

    def _form(
        self, request: Request, env_id: str, given: Mapping[str, str], error: str = ""
    ) -> Response:
        playing = not request.url.path.startswith(("/compare", "/matches", "/pairings"))
        _known(env_id)
        seats: Sequence[str] = ()
        players: list[Player] = []
        tasks = None
        try:
            env = Filled.read(env_id, given).setup.env()
            seats, players = env.possible_agents, self.players.of(env, person=playing)
            source = task_source(env)
            tasks = None if source is None else len(source)
        except MISTAKES as mistake:
            error = error or str(mistake)
        return page(
            "form",
            request,
            status=400 if error else 200,
            playing=playing,
            spec=spec(env_id),
            fields=fields_of(env_id),
            given=given,
            seats=[(agent, able(players, agent)) for agent in seats],
            teams=[player for player in players if {*seats} <= {*player.seats}],
            usual=_usual_seat(seats, given),
            tasks=tasks,
            error=error,
        )

    def runs(self, request: Request) -> Response:
        """Which runs to watch."""
        return page("runs", request, runs=self.folders.holding("log.jsonl"), folders=self.folders)

    # -- episodes ---------------------------------------------------------------------------------
    async def begin_game(self, request: Request) -> Response:
        """Begin an episode; the page of it."""

        def begun(filled: Filled) -> str:
            game = Game(filled.setup, self.players, filled.seats("seat"))
            return f"/games/{self.works.begin(game)}"

        return await self._begin(request, begun)

    async def begin_match(self, request: Request) -> Response:
        """Begin an episode of each of two teams."""

        def begun(filled: Filled) -> str:
            sides = {label: filled.seats(label) for label in ("left", "right")}
            return f"/matches/{self.works.begin(Match(filled.setup, self.players, sides))}"

        return await self._begin(request, begun)

    async def begin_pairings(self, request: Request) -> Response:
        """Begin every pairing of saved teams."""

        def begun(filled: Filled) -> str:
            teams = [key[5:] for key in filled.given if key.startswith("team.")]
            tasks = whole_number(filled.given, "tasks", 10) or 0
            work = Pairings(filled.setup, self.players, teams, tasks)
            return f"/pairings/{self.works.begin(work)}"

        return await self._begin(request, begun)

    async def _begin(self, request: Request, begun: Callable[[Filled], str]) -> Response:
        given = await posted(request)
        env_id = given.get("env_id", "")

        def answered() -> Response:
            _known(env_id)
            try:
                place = begun(Filled.read(env_id, given))
            except MISTAKES as mistake:
                return self._form(request, env_id, given, str(mistake))
            return RedirectResponse(place, status_code=303)

        return await run_in_threadpool(answered)

    async def act(self, request: Request) -> Response:
        """A person's text; the page after it."""
        given, key = await posted(request), request.path_params["key"]

        def answered() -> Response:
            game = self._work(key, Game)
            if "leave" in given:
                self.works.leave(key)
                return RedirectResponse("/play", status_code=303)
            try:
                question = whole_number(given, "question", 0) or 0
            except ValueError as error:
                raise HTTPException(400, str(error)) from error
            text = given.get("text", "").replace("\r\n", "\n")  # as browsers send lines
            game.answer(question, text)
            game.rest(FIRST_LOOK)
            return RedirectResponse(f"/games/{key}", status_code=303)

        return await run_in_threadpool(answered)

    def game(self, request: Request) -> Response:
        """An episode: what a seat sees, what it is asked, and in the end what came of it."""
        key = request.path_params["key"]
        game = self._work(key, Game)
        game.rest(FIRST_LOOK)
        with game.changed:
            asked, episode, done = game.asked, game.episode, game.done
            chats = game.chats()
            resting = asked is not None or episode is not None
            picture = Markup(game.env.unwrapped.picture()) if resting and _own(game.env) else ""
        agent = asked.agent if asked is not None else next(iter(game.seats), "")
        told = asked.messages if asked is not None else chats.get(agent, ())
        return part(
            "game",
            request,
            working=asked is None and not done,
            key=key,
            game=game,
            agent=agent,
            asked=asked,
            chat=views.bubbles(agent, told),
            seats=[
                (a, game.labels[game.chosen[a]], chat)
                for a, chat in views.all_bubbles(chats).items()
            ],
            picture=picture,
            result=None if episode is None else self._result(game),
        )

    def _result(self, game: Game) -> dict[str, Any]:
        episode, experts = game.episode, game.experts
        assert episode is not None
        own = "yours" if YOU in game.chosen.values() else "this episode"
        episodes = {own: episode} if experts is None else {"the experts'": experts, own: episode}
        return {
            "headline": outcome(episode),
            "rewards": views.rewards(episode),
            "judged": views.judged(episode),
            "solution": _solution(game.env),
            "listing": views.beside(episodes),
        }

    def transcript(self, request: Request) -> Response:
        """The record of an episode, as files of episodes hold it."""
        episode = self._work(request.path_params["key"], Game).episode
        if episode is None:
            raise HTTPException(404, "The episode has not ended.")
        line = json.dumps(episode_to_dict(episode)) + "\n"
        name = 'attachment; filename="episodes.jsonl"'  # as reports look for it in a folder
        return Response(line, 200, {"Content-Disposition": name}, "application/x-ndjson")

    def match(self, request: Request) -> Response:
        """Two teams on one task."""
        match = self._work(request.path_params["key"], Match)
        match.rest(FIRST_LOOK)
        done, episodes = match.done, match.episodes
        whose = {
            side: [(agent, match.labels[name]) for agent, name in chosen.items()]
            for side, chosen in match.sides.items()
        }
        return part(
            "match",
            request,
            working=not done,
            match=match,
            whose=whose,
            results={
                side: (outcome(episode), views.rewards(episode))
                for side, episode in episodes.items()
            },
            listing=views.beside(episodes) if done and episodes else None,
        )

    def pairing(self, request: Request) -> Response:
        """The matrix of saved teams."""
        work = self._work(request.path_params["key"], Pairings)
        work.rest(FIRST_LOOK)
        shown = None if work.result is None else pairings(work.result, ())
        return part("pairing", request, working=not work.done, work=work, shown=shown)

    def watch(self, request: Request) -> Response:
        """Runs while they train; the part is made anew where a file has changed."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:6]
        if not names:
            return RedirectResponse("/watch", status_code=303)
        try:
            shown = self.watcher.look({name: self.folders.path(name) for name in names})
        except MISTAKES as mistake:
            return part("watch", request, working=True, names=names, error=str(mistake))
        going_on = not all(progress.ended for progress in shown.progress)
        return part("watch", request, working=going_on, names=names, error="", shown=shown)

    # -- the rest -----------------------------------------------------------------------------
    def style(self, request: Request) -> Response:
        """The style sheet."""
        return Response(style(), media_type="text/css")

    def _work(self, key: str, kind: type[Any]) -> Any:
        work = self.works.get(key)
        if not isinstance(work, kind):
            raise HTTPException(404, "It has ended, or was left for too long.")
        return work

    async def refused(self, request: Request, error: Exception) -> Response:
        """A page that says what is wrong."""
        assert isinstance(error, HTTPException)
        text = error.detail if error.status_code != 404 or " " in error.detail else "No such page."
        return page("refused", request, status=error.status_code, text=text)

    async def busy(self, request: Request, error: Exception) -> Response:
        """A page that says that there is no room."""
        return page("refused", request, status=503, text=str(error))


def _usual_seat(seats: Sequence[str], given: Mapping[str, str]) -> str:
    """The person's seat where the form does not say: the last one, if they have no other."""
    chosen = any(given.get(f"seat.{agent}") == YOU for agent in seats)
    return seats[-1] if seats and not chosen else ""


def _known(env_id: str) -> None:
    if env_id not in list_envs():  # no "module:Class": a page names no programs
        raise HTTPException(404, f"There is no environment {env_id!r:.80}.")


def _own(env: Any) -> bool:
    return isinstance(env.unwrapped, TextEnv)


def _solution(env: Any) -> str:
    """What solves the task, in words; "" where the environment tells none."""
    if not _own(env):
        return ""
    try:
        return env.unwrapped.solution(env.unwrapped.task)
    except ValueError:
        return ""
