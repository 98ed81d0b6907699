"""Seats that may call tools: `make(id, tools={...})`, or `Tools(env, {...})`.

    make("math_team-v1", tools={"reasoner_0": ["calculate"], "price": 0.02, "calls": 3})

The seat is told so in the last lines of what it is told first:

    Before you act you may call a tool, at most 3 times in all, by a line of its own:
    Call: calculate(expression)
      gives the exact value of numbers with + - * / // % ** and parentheses (costs you 0.02)

An action with such a line is a *call*. It is an action of the seat like any other, a turn of its
own that is paid and learned from; but the rules do not see it, nobody else is shown it, and the
seat acts again:

    reasoner_0   Call: calculate(17 * 23)
                 Result of calculate:
                 > 391
                 You may call 2 more times.
    reasoner_0   Answer: 391

Where seats act at once, those that called act again, and the others pass until nobody calls. So
each seat's own turns are whole: what a call cost is paid to the turn of the call, and what the
answer earned to the turn of the answer.

A result is the environment's text, every line of it behind `> `. A call that names no tool of the
seat, that cannot be read, or whose tool fails, is answered by a line that says so; it counts and
costs like any other. When its calls are spent, what a seat writes is for the rules, whatever it
looks like. A seat without tools has no calls, and a line of its text that looks like one is text.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from functools import partial
from inspect import isabstract
from math import inf
from typing import Any, Literal

from pydantic import Field

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import text_env
from llm_marl_envs.core.options import EXPECTED, Options
from llm_marl_envs.core.outcome import Aside
from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.seats import by_seat
from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.sandbox import SandboxError
from llm_marl_envs.tools import TOOLS
from llm_marl_envs.tools.base import Tool
from llm_marl_envs.tools.calls import NAME, Call, arguments_of, call_in
from llm_marl_envs.tools.toolrl import BEST, FORMAT, WORST, match

BROKEN = (ConnectionError, BrokenExecutor, SandboxError)
"""What a tool raises where something that it needs broke down: nothing that a seat did."""
MOST_RESULT = 2000
"""Characters of a result that are told."""
CUT = "[the rest is left out]"
NOTICE = "Before you act you may call a tool, at most {times} in all, by a line of its own:"
NATIVE_NOTICE = "Before you act you may call a tool, at most {times} in all, one at a time."
RESULT = "Result of {tool}:"
LEFT = "You may call {times}."
SPENT = "You may call no more: act now."


class Rules(Options):
    """What may stand beside the seats; `Tools` says what it means."""

    within = "tools"

    calls: int = Field(default=3, ge=1, le=100)
    scheme: Literal["price", "toolrl"] = "price"
    price: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, json_schema_extra={EXPECTED: "a number, 0 or more"}
    )


class Caller:
    """The calls of one episode; a `Habit` of `core/outcome.py`.

    Args:
        tools: seat -> name -> tool.
        rules: how many, and at what price.
        env: the environment.
        seed: what chance follows from.
    """

    def __init__(
        self, tools: Mapping[str, Mapping[str, Tool]], rules: Rules, env: TextEnv, seed: int
    ) -> None:
        self.tools, self.rules, self.env, self.seed = tools, rules, env, seed
        self.count = dict.fromkeys(tools, 0)

    def demand(self, agent: str, chat: Sequence[Message]) -> str:
        """Nothing: nobody has to call."""
        return ""

    def take(self, agent: str, text: str) -> Aside | None:
        """What a call leads to; None: it is none, or there are no calls left."""
        tools = self.tools.get(agent)
        if not tools or self.count[agent] >= self.rules.calls:
            return None
        call = call_in(text)
        if call is None:
            return None
        self.count[agent] += 1
        result, facts = self._result(agent, call)
        tool = tools.get(facts["tool"])
        price = self.rules.price
        if price is None:
            price = tool.price if tool is not None else max(t.price for t in tools.values())
        left = self.rules.calls - self.count[agent]
        news = [RESULT.format(tool=facts["tool"] or "no tool"), quote(result)]
        news.append(LEFT.format(times=_times(left, " more")) if left else SPENT)
        return Aside(
            reward_terms={**({"calls": -price} if price else {}), **self._pay(agent, facts)},
            feedback="\n".join(news),
            facts={"call": facts},
        )

    def _pay(self, agent: str, facts: Mapping[str, Any]) -> dict[str, float]:
        """What a call earns by the scheme; the price aside."""
        if self.rules.scheme == "price":
            return {}
        known = self.env.known_calls(self.env.task, agent)[self.count[agent] - 1 :]
        near = match(facts["tool"], facts["arguments"], next(iter(known), None))
        tool = self.tools[agent].get(facts["tool"])
        return {"format": FORMAT if tool and _fits(tool, facts) else 0.0, "match": near}

    def redraw(self, seed: int) -> None:
        """As `Habit.redraw`."""
        self.seed = seed

    def _result(self, agent: str, call: Call | str) -> tuple[str, dict[str, Any]]:
        """What a seat is told, and what its info keeps of the call."""
        if isinstance(call, str):
            return call, {"tool": "", "arguments": {}, "failed": call}
        tool = self.tools[agent].get(call.tool)
        facts: dict[str, Any] = {"tool": call.tool, "arguments": {}, "failed": ""}
        if tool is None:
            facts["tool"] = ""
            facts["failed"] = f"there is no such tool; you have {', '.join(self.tools[agent])}"
            return facts["failed"], facts
        try:
            arguments = facts["arguments"] = arguments_of(call, tool.schema())
            chance = random.Random(f"tools/{self.seed}/{agent}/{self.count[agent]}")
            task = self.env.task
            result = _called(tool, lambda: tool.call(tool.checked(arguments), task, chance))
        except ValueError as error:
            facts["failed"] = " ".join(str(error).split())[:MOST_RESULT]
            return facts["failed"], facts
        return _fitting(result), facts


def _fits(tool: Tool, facts: Mapping[str, Any]) -> bool:
    """Whether a call has the form that was asked for, whatever came of it."""
    with suppress(ValueError):
        tool.checked(facts["arguments"])
        return True
    return False


def _called(tool: Tool, call: Callable[[], Any]) -> str:
    """What a tool says.

    Raises:
        ValueError: nothing that can be told; what is wrong in a line.
        ConnectionError, BrokenExecutor, SandboxError: what it needs broke down.
    """
    result = call() if tool.seconds is None else _watched(tool.seconds, call)
    if not isinstance(result, str):
        raise ValueError(f"it failed: its result is no text but {type(result).__name__}")
    return result


def _watched(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of another's code; it is given up after so many seconds, in its own thread."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - told to the seat, below
            answer.set_exception(error)

    # A daemon, which a process does not wait for at its end.
    thread = threading.Thread(target=run, daemon=True, name="tool")
    thread.start()
    thread.join(seconds)
    if not answer.done():
        raise ValueError(f"it did not answer within {seconds:g} s")
    try:
        return answer.result()
    except (ValueError, *BROKEN):
        raise
    except Exception as error:  # the seat is told its kind alone
        raise ValueError(f"it failed: {type(error).__name__}") from error


def _fitting(text: str) -> str:
    return text if len(text) <= MOST_RESULT else f"{text[:MOST_RESULT]}\n{CUT}"


def _times(count: int, more: str = "") -> str:
    return f"{count}{more} time{'s' * (count != 1)}"


def Tools(env: Any, given: Mapping[str, Any]) -> Any:  # noqa: N802 - a wrapper, as `Channel`
    """The environment, whose seats may call tools; see the module.

    Bounds stay those of the environment, which has no calls. So do the returns that measurements
    count: prices and what a scheme pays are learned from, and stand beside.

    Args:
        env: an environment of this library, of either form, also with PettingZoo's wrappers around.
            It is changed in its place.
        given: seat or role -> names of tools, as `llm-marl tools` lists them or "module:Class"; and
            calls: how often each seat may call in an episode, 1 to 100, 3 by default.
            price: what a call costs its seat, a reward term `calls`; by default what its tool says,
                which is nothing for those of this library.
            scheme: "price", that alone, or "toolrl", which pays each call also for its `format` (0
                or 1) and its `match` (-3 to 3) with the one that the environment knows; see
                `tools/toolrl.py`. It never asks whether the task was solved.

    Raises:
        ValueError: an unknown seat, tool or option, one out of range, no seat, or a tool that the
            environment has nothing for; or an environment that has tools already, or knows no calls
            where the scheme wants some.
        TypeError: another library's environment, or a value of the wrong type.
        ImportError: what a tool needs is not installed; the message names the extra.
    """
    inner = text_env(env, "tools")
    name = inner.metadata["name"]
    if not isinstance(given, Mapping):
        raise TypeError(f"tools={given!r:.80}: expected a dict seat or role -> names of tools")
    if any("tools" in getattr(layer, "env_kwargs", {}) for layer in (env, inner)):
        raise ValueError(f"tools: {name} has some already")
    options = {key: value for key, value in given.items() if key in Rules.model_fields}
    rules = Rules(**options)
    named = {key: names for key, names in given.items() if key not in options}
    seats = by_seat("tools", inner.possible_agents, named, [*Rules.model_fields])
    if not seats:
        raise ValueError(f"tools={dict(given)}: expected tools for some of {inner.possible_agents}")
    tools = {seat: _made(inner, seat, names) for seat, names in seats.items()}
    _attach(inner, rules, tools)
    plain = {key: list(names) for key, names in named.items()}
    for layer in (env, inner):
        own = getattr(layer, "env_kwargs", {})
        layer.env_kwargs = {**own, "tools": {**plain, **options}}
    return env


def _made(env: TextEnv, seat: str, names: Any) -> dict[str, Tool]:
    """Name -> tool, of one seat."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise TypeError(f"tools, {seat}: {names!r:.80}: expected a list of names of tools")
    tools: dict[str, Tool] = {}
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"tools, {seat}: {name!r:.80}: expected the name of a tool")
        make = _class_of(seat, name)
        try:
            tool = make(env)
        except ValueError as error:
            raise ValueError(
                f"tools, {seat}: {name!r:.200} has nothing to work on: {error}"
            ) from error
        if tools.setdefault(tool.name, tool) is not tool:
            raise ValueError(f"tools, {seat}: two tools are called {tool.name!r:.200}")
    return tools


def _class_of(seat: str, name: str) -> type[Tool]:
    """The class of a tool by its name, looked at."""
    head, _, argument = name.partition(":")
    makes = TOOLS.get(head) if argument and head in TOOLS else None
    tool = TOOLS.get(name) if makes is None or isinstance(makes, type) else makes(argument)
    if not isinstance(tool, type) or not issubclass(tool, Tool) or isabstract(tool):
        raise TypeError(
            f"tools, {seat}: {name!r:.200}: expected a class derived from Tool that has all it "
            f"needs, got {tool!r:.80}"
        )
    if not re.fullmatch(NAME, str(getattr(tool, "name", ""))):
        raise ValueError(
            f"tools, {seat}: {name!r:.200}: a tool's name is a word of at most 64 letters"
        )
    price: Any = tool.price
    if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 <= price < inf:
        raise ValueError(
            f"tools, {seat}: {name!r:.200} has price={price!r:.200}: expected a number, 0 or more"
        )
    return tool


def _attach(env: TextEnv, rules: Rules, tools: Mapping[str, Mapping[str, Tool]]) -> None:
    env.habits = (*env.habits, partial(Caller, tools, rules))
    sheets = {seat: _sheet(of, rules) for seat, of in tools.items()}
    env.tool_sheets = {**env.tool_sheets, **sheets}
    env.notices = (*env.notices, {seat: sheet.notice for seat, sheet in sheets.items()})
    env.beside = {**env.beside, **{s: env.beside.get(s, 0) + rules.calls for s in tools}}
    all_tools = [tool for of in tools.values() for tool in of.values()]
    env.blocking |= any(tool.seconds is not None or tool.blocking for tool in all_tools)
    env.replayable &= all(tool.replayable for tool in all_tools)
    dearest = max(tool.price for tool in all_tools) if rules.price is None else rules.price
    worst, best = 0.0, 0.0
    if rules.scheme == "toolrl":
        worst, best = WORST, BEST + FORMAT
        for seat in tools:
            _check_known(env, seat)
    env.widen((worst - dearest) * rules.calls, best * rules.calls)


def _check_known(env: TextEnv, seat: str) -> None:
    try:
        env.known_calls(env.source[0], seat)
    except ValueError as error:
        raise ValueError(
            f"tools, scheme='toolrl': {error}, with which it compares those of {seat}; leave the "
            "scheme out, or use math_team-v1"
        ) from error


def _sheet(tools: Mapping[str, Tool], rules: Rules) -> ToolSheet:
    """What a seat is told of its tools, in either form."""
    times = _times(rules.calls)
    lines, schemas = [NOTICE.format(times=times)], []
    for tool in tools.values():
        price = tool.price if rules.price is None else rules.price
        costs = f" (costs you {price:g})" if price else ""
        about = f"gives {' '.join(tool.description.split())}{costs}"
        lines.append(f"Call: {tool.example()}\n  {about}")
        function = {"name": tool.name, "description": about, "parameters": tool.schema()}
        schemas.append({"type": "function", "function": function})
    return ToolSheet("\n".join(lines), NATIVE_NOTICE.format(times=times), tuple(schemas))
