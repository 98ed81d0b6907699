"""`Choose`: an action is the number of a message in a menu.

    env = Choose(make("coop_writing_tldr-v0"))     # Discrete(3): the plans of the scripted experts
    env = Choose(env, k=2, menu=my_menu, mask="info")

`menu(env, agent)` gives number -> message whenever a seat is to act; it may change from turn to
turn. A number below k without a message says nothing ("").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from llm_marl_envs.core.experts import conventions_of, experts_of, text_env
from llm_marl_envs.wrappers.codecs import Reader, Words
from llm_marl_envs.wrappers.numbers import (
    Form,
    MaskPlace,
    can_act,
    check_text,
    in_numbers,
    is_whole,
)

Menu = Callable[[Any, str], Mapping[int, str]]


class ExpertMenu:
    """What the scripted expert of a seat would say now, one message per convention.

    Args:
        conventions: their names; the k-th message follows the k-th one. Of a task that does not
            allow a convention its number has no message.
    """

    def __init__(self, conventions: Sequence[str]) -> None:
        self.conventions = tuple(conventions)

    @classmethod
    def of(cls, env: Any) -> ExpertMenu:
        """The menu of all conventions of an environment, sorted.

        Raises:
            TypeError: an environment of another library.
            ValueError: it has no scripted experts.
        """
        return cls(sorted(conventions_of(experts_of(env), text_env(env).source)) or [""])

    def __call__(self, env: Any, agent: str) -> dict[int, str]:
        """Number -> message, of the task and the turn that are being played."""
        inner, experts = text_env(env), experts_of(env)
        possible = experts.conventions(inner.task) or ("",)
        return {
            number: experts.reply(inner.task, agent, name, inner.chat(agent))
            for number, name in enumerate(self.conventions)
            if name in possible
        }


class Choices(Form):
    """The form of `Choose`.

    Args:
        k: how many numbers there are.
        menu: what they say.
        reader: text -> array.
        mask: where the masks stand.
    """

    name = "Choose"

    def __init__(self, k: int, menu: Menu, reader: Reader, mask: MaskPlace | None) -> None:
        super().__init__(reader)
        self.k, self.menu, self.mask = k, menu, mask
        self._menus: dict[str, Mapping[int, str]] = {}

    def observation_space(self) -> spaces.Space[Any]:
        """A Box, or a Dict of `observation` and `action_mask`."""
        if self.mask != "observation":
            return self.box
        mask = spaces.Box(0, 1, (self.k,), np.int8)
        return spaces.Dict({"observation": self.box, "action_mask": mask})

    def action_space(self) -> spaces.Space[Any]:
        """Discrete(k)."""
        return spaces.Discrete(self.k)

    def renew(self) -> None:
        """A new turn has new menus."""
        self._menus = {}

    def action_mask(self, env: Any, agent: str) -> np.ndarray:
        """1 where the menu has a message; all ones for a seat that is not to act."""
        mask = np.zeros(self.k, np.int8)
        mask[list(self._offered(env, agent)) if can_act(env, agent) else slice(None)] = 1
        return mask

    def text(self, env: Any, agent: str, action: Any) -> str:
        """The message of a number.

        Raises:
            TypeError: the action is no number.
            ValueError: it is not one of 0 to k - 1.
        """
        if not is_whole(action, 0):
            raise TypeError(
                f"Choose: action of {agent}: expected a number from 0 to {self.k - 1}, got "
                f"{action!r:.80}; the environment inside (`.env`) takes texts"
            )
        number = int(action)
        if not 0 <= number < self.k:
            raise ValueError(f"Choose: action {number} of {agent}: expected 0 to {self.k - 1}")
        return self._offered(env, agent).get(number, "") if can_act(env, agent) else ""

    def _offered(self, env: Any, agent: str) -> Mapping[int, str]:
        """The menu of this turn.

        Raises:
            TypeError: it is no dict of numbers and texts.
            ValueError: it is empty, or has numbers that are not below k.
        """
        if agent not in self._menus:
            menu = self.menu(env, agent)
            task = getattr(getattr(env.unwrapped, "task", None), "id", "unknown")
            where = f"Choose: the menu of {agent}, task {task!r}"
            if not menu:
                raise ValueError(f"{where}, is empty; expected at least one message")
            if not isinstance(menu, Mapping) or not all(map(_is_entry, menu.items())):
                raise TypeError(f"{where}: expected a dict number -> message, got {menu!r:.80}")
            beyond = [number for number in menu if not 0 <= number < self.k]
            if beyond:
                raise ValueError(f"{where}, has the numbers {beyond}; expected 0 to {self.k - 1}")
            self._menus[agent] = menu
        return self._menus[agent]


def _is_entry(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[0], (int, np.integer)) and isinstance(entry[1], str)


def Choose(  # noqa: N802 - a wrapper, which has one class per form of environment
    env: Any,
    k: int | None = None,
    menu: Menu | None = None,
    codec: Reader | None = None,
    mask: MaskPlace | None = None,
) -> Any:
    """A text environment whose actions are choices from a menu.

    Args:
        env: a text environment of either form; its own form is kept.
        k: how many numbers there are, >= 1; the conventions of `menu` where it is an `ExpertMenu`.
        menu: (environment, agent) -> {number: message}; `ExpertMenu.of(env)` where None. It must
            be a class or a module's function where a trainer pickles environments.
        codec: what observations look like; `Words()` where None.
        mask: put the mask of possible numbers into every "info" or "observation"; `action_mask`
            gives it in any case.

    Raises:
        TypeError: no PettingZoo environment of texts, no menu for one of another library, or no k
            for a menu of one's own.
        ValueError: k below 1, an unknown place for masks, or there are no scripted experts.
    """
    check_text(env, "Choose")
    if menu is None:
        try:
            menu = ExpertMenu.of(env)
        except (TypeError, ValueError) as error:
            raise type(error)(f"Choose: no menu of experts ({error}); give k= and menu=") from error
    if k is None and not isinstance(menu, ExpertMenu):
        raise TypeError("Choose: expected k, how many numbers the menu has at most")
    k = len(menu.conventions) if k is None and isinstance(menu, ExpertMenu) else k
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"Choose: k={k!r}: expected a whole number of at least 1")
    if mask not in (None, "info", "observation"):
        raise ValueError(f"Choose: mask={mask!r}: expected None, 'info' or 'observation'")
    return in_numbers(env, Choices(k, menu, codec or Words(), mask))
