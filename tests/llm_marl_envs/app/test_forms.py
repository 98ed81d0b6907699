"""Forms: every declared argument that a form can hold, and what comes back from its texts."""

from __future__ import annotations

from contextlib import suppress

import pytest

from llm_marl_envs import list_envs, make
from llm_marl_envs.app.forms import MOST, Filled, arguments, fields_of


@pytest.mark.parametrize("env_id", list_envs())
def test_what_a_field_offers_is_accepted(env_id: str) -> None:
    """Each choice, and each end of a number, alone: the environment takes it or says why not."""
    for field in fields_of(env_id):
        if field.kind == "choice":
            texts = list(map(str, field.choices))
        else:
            texts = [str(end) for end in (field.low, field.high) if end is not None]
        for text in texts:
            given = arguments(env_id, {field.name: text})
            assert list(given) == [field.name.partition(".")[0]]
            refused = (ValueError, ImportError)  # several must fit together, or an extra is missing
            with suppress(*refused):
                make(env_id, **given)


def test_texts_become_what_make_takes() -> None:
    given = {"n_agents": "4", "decides": "leader", "rounds": " 3 ", "pay": "", "other": "x"}
    assert arguments("debate-v0", given) == {"n_agents": 4, "decides": "leader", "rounds": 3}
    assert arguments("donor-v0", {"punish": "True", "trace": "2"}) == {"punish": True, "trace": 2}
    assert arguments("referential-v0", {"seats": "[2, 1]"}) == {"seats": [2, 1]}
    assert arguments("collab_maze-v0", {"maze.size": "5", "maze.walls": "0.2"}) == {
        "maze": {"size": 5, "walls": 0.2}
    }
    assert arguments("math_team-v1", {"level": "2"}) == {"level": 2}


@pytest.mark.parametrize(
    ("env_id", "name", "text"),
    [
        ("debate-v0", "n_agents", "three"),
        ("debate-v0", "n_agents", "2.5"),
        ("debate-v0", "rounds", str(MOST + 1)),
        ("debate-v0", "decides", "nobody"),
        ("commons-v0", "end", "nan"),
        ("referential-v0", "seats", "[1, true]"),
        ("referential-v0", "seats", "!!python/object/apply:os.system [true]"),
        ("referential-v0", "seats", str([1] * (MOST + 1))),
        ("referential-v0", "seats", "[" * 100_000),
        ("referential-v0", "seats", f"[{'9' * 5000}]"),
        ("crowd-v0", "weights", "[1, NaN]"),
        ("crowd-v0", "weights", "[1, 1e999]"),
    ],
)
def test_other_texts_are_refused(env_id: str, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        arguments(env_id, {name: text})


def test_files_programs_and_models_cannot_be_named() -> None:
    names = {field.name for env_id in list_envs() for field in fields_of(env_id)}
    assert not names & {"tasks", "render_mode", "tools", "scorer"}
    assert arguments("debate-v0", {"tasks": "/etc/passwd", "judge": "os:system"}) == {}
    with pytest.raises(ValueError, match="judge"):
        arguments("debate_pro_con-v0", {"judge": "os:system"})


def test_a_form_as_a_page_sends_it() -> None:
    given = {"arg.n_agents": "5", "task": "7", "seed": "", "seat.debater_0": "you", "left.a": "b"}
    filled = Filled.read("debate-v0", given)
    assert (filled.setup.env_kwargs, filled.setup.task, filled.setup.seed) == (
        {"n_agents": 5},
        7,
        0,
    )
    assert filled.seats("seat") == {"debater_0": "you"}
    for text in ("-1", "1e3", "٣", "9" * 30, "9" * 5000):
        with pytest.raises(ValueError, match="task"):
            Filled.read("debate-v0", {"task": text})


def test_a_default_is_shown_as_people_read_it() -> None:
    shown = {field.name: field.default for field in fields_of("coop_coding-v0")}
    assert (shown["reward"], shown["n_agents"]) == ("tests", "2")
    assert shown["info"] == ""  # none is set
