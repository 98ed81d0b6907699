from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.registration import parse_env_id
from support.registries import registries, restored
from support.toys import Relay, WordPair

from llm_marl_envs.core import specs
from llm_marl_envs.core.specs import EnvSpec, list_envs, register, spec
from llm_marl_envs.play.registry import make, make_vec

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("own_registry")


def test_make_knows_its_spec() -> None:
    register("word_pair-v0", "support.toys:WordPair", kwargs={"turns": 3}, summary="two words")
    env = make("word_pair-v0", render_mode="ansi")
    assert env.max_turns == 3
    assert env.render_mode == "ansi"
    assert env.spec == spec("word_pair-v0")
    assert env.spec.summary == "two words"
    assert env.env_kwargs == {"render_mode": "ansi"}


def test_the_newest_version_is_the_default() -> None:
    for version in (2, 10, 9):
        register(f"word_pair-v{version}", "support.toys:WordPair", kwargs={"turns": version})
    assert make("word_pair").max_turns == 10
    assert make("word_pair-v2").max_turns == 2


@pytest.mark.parametrize(
    "env_id", ["word_pair-v12", "textarena/KuhnPoker-v0", "textarena/2048-v0-easy", "textarena/Nim"]
)
def test_versions_are_read_as_gymnasium_reads_them(env_id: str) -> None:
    space, name, version = parse_env_id(env_id)
    registered = EnvSpec(id=env_id, entry_point=WordPair)
    assert (registered.name, registered.version) == (f"{space}/{name}" if space else name, version)


def test_what_is_not_registered_has_no_version() -> None:
    stranger = spec("support.toys:WordPair")
    assert (stranger.name, stranger.version) == ("support.toys:WordPair", None)


def test_other_form() -> None:
    register("word_pair-v0", WordPair)
    register("relay-v0", Relay, api="aec")
    aec = make("word_pair-v0", api="aec")
    aec.reset(seed=0)
    assert aec.agent_selection == "left_0"
    assert aec.spec.id == "word_pair-v0"
    assert aec.env_kwargs == {"api": "aec"}
    parallel = make("relay-v0", api="parallel")
    assert set(parallel.reset(seed=0)[0]) == {"runner_0", "runner_1", "runner_2"}
    assert make("relay-v0", api="aec").unwrapped.possible_agents[0] == "runner_0"


@pytest.mark.parametrize(
    ("env_id", "kwargs", "error", "words"),
    [
        ("word_pear-v0", {}, ValueError, "did you mean 'word_pair-v0'"),
        ("word_pair-v1", {}, ValueError, "there is 'word_pair-v0'; the version history"),
        ("zzz", {}, ValueError, "no environment 'zzz'; `llm-marl list` shows them"),
        ("word_pair-v7", {}, ValueError, "no environment 'word_pair-v7'"),
        (7, {}, ValueError, "no environment 7"),
        ("", {}, ValueError, "no environment ''"),
        ("word_pair-v0", {"turn": 2}, ValueError, r"unknown key 'turn'; did you mean 'turns'\?"),
        ("word_pair-v0", {"turns": "two"}, TypeError, "turns='two': expected a whole number"),
        ("word_pair-v0", {"turns": True}, TypeError, "turns=True: expected a whole number"),
        ("word_pair-v0", {"api": "gym"}, ValueError, "api='gym': expected None or one of"),
        ("word_pair-v0", {"turns": 0}, ValueError, "turns=0"),
        ("needy-v0", {}, TypeError, r"needy-v0 needs the arguments \['words'\]"),
        ("wrong_form-v0", {}, TypeError, "WordPair, which is no AECEnv"),
        ("no_module-v0", {}, ImportError, "no_such_module"),
        ("no_name-v0", {}, ImportError, "module support.toys has no 'Nothing'"),
    ],
)
def test_make_says_what_is_wrong(
    env_id: Any, kwargs: dict[str, Any], error: type[Exception], words: str
) -> None:
    def needy(words: str, turns: int = 1) -> WordPair:
        raise AssertionError("must not be called")

    register("word_pair-v0", WordPair)
    register("needy-v0", needy)
    register("wrong_form-v0", WordPair, api="aec")
    register("no_module-v0", "no_such_module:Env")
    register("no_name-v0", "support.toys:Nothing")
    with pytest.raises(error, match=words):
        make(env_id, **kwargs)


def test_a_missing_extra_is_named() -> None:
    specs._specs()["x-v0"] = EnvSpec(id="x-v0", entry_point=WordPair, extras=("not_there",))
    with pytest.raises(ImportError, match=r"pip install 'llm-marl-envs\[not_there\]'"):
        make("x-v0")


def test_register_twice() -> None:
    first = register("word_pair-v0", WordPair)
    assert register("word_pair-v0", WordPair) == first
    with pytest.raises(ValueError, match="word_pair-v0 is registered already"):
        register("word_pair-v0", Relay)


@pytest.mark.parametrize("bad", ["word_pair", "Word-v0", "a b-v0", "-v0", "x-v", "x-v0\n", 3])
def test_ids_have_a_version(bad: Any) -> None:
    with pytest.raises(ValueError, match="expected lower case `name-vN`"):
        register(bad, WordPair)


@pytest.mark.parametrize(
    ("entry_point", "kwargs", "error", "words"),
    [
        ("support.toys.WordPair", {}, ValueError, "expected 'module:Class'"),
        (7, {}, TypeError, "expected 'module:Class' or a callable, got int"),
        (WordPair, {"api": "gym"}, ValueError, "api 'gym'"),
    ],
)
def test_entry_points_are_checked(
    entry_point: Any, kwargs: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        register("x-v0", entry_point, **kwargs)


def test_make_vec() -> None:
    register("word_pair-v0", WordPair)
    copies = make_vec("word_pair-v0", 3, turns=1)
    assert len(copies) == 3
    assert len({id(env) for env in copies.envs}) == 3
    with pytest.raises(ValueError, match="n=0"):
        make_vec("word_pair-v0", 0)


def test_pettingzoo_can_make_it() -> None:
    from pettingzoo.env_registry import registration

    register("word_pair-v0", WordPair)
    parallel: Any = registration.make("parallel", "llm_marl/word_pair-v0", turns=4)
    assert parallel.max_turns == 4
    aec: Any = registration.make("aec", "llm_marl/word_pair-v0")
    assert aec.unwrapped.max_turns == 2


@pytest.mark.parametrize(
    "program",
    [
        "import llm_marl_envs, pettingzoo",
        "import pettingzoo, llm_marl_envs",
        "from llm_marl_envs.core.environment import TextEnv; import pettingzoo",
        "import llm_marl_envs; llm_marl_envs.make; from pettingzoo.utils import AECEnv",
    ],
)
def test_every_id_is_in_pettingzoos_registries(run_python: Any, program: str) -> None:
    ids = run_python(
        f"import warnings; warnings.simplefilter('error')\n{program}\n"
        "from pettingzoo.env_registry.registration import aec_registry, parallel_registry\n"
        "for one in (aec_registry, parallel_registry):\n"
        "    print(*sorted(i for i in one if i.startswith('llm_marl/')))"
    ).splitlines()
    assert ids == [" ".join(f"llm_marl/{env_id}" for env_id in list_envs())] * 2


def test_a_pettingzoo_without_a_registry_is_no_error(run_python: Any) -> None:
    """As in 1.26, which has no such module; agilerl asks for it."""
    program = (
        "import sys, pettingzoo; sys.modules['pettingzoo.env_registry.registration'] = None\n"
        "from llm_marl_envs import make, register\n"
        "register('own-v0', 'support.toys:WordPair'); print(make('own-v0').max_turns)"
    )
    assert run_python(program).strip() == "2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 1: malformed YAML"),
        ("- a", "expected a map from id to entry, got list"),
        ("a-v0: 3", "entry 'a-v0': expected a map with `entry_point`"),
        ("a-v0: {entry_point: 'm:C', colour: red}", "keys among"),
        ("a-v0: {entry_point: 'm:C', extras: train}", "extras: expected a list, got 'train'"),
        ("a-v0: {entry_point: 'm:C', kwargs: [1]}", "kwargs: expected a dict"),
        ("a: {entry_point: 'm:C'}", "environment id 'a': expected lower case"),
        ("3: {entry_point: 'm:C'}", "environment id 3"),
        ("a-v0: {entry_point: 'mC'}", "expected 'module:Class'"),
    ],
)
def test_a_malformed_registry_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "envs.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words) as error:
        specs.read_registry(path)
    assert str(path) in str(error.value)


def test_what_a_test_registers_and_leaves_is_found_and_put_back() -> None:
    before = {name: dict(registry) for name, registry in registries().items()}
    with restored() as left:
        register("word_pair-v0", WordPair)
        del specs._specs()["debate-v0"]
        specs._specs()["coop_coding-v0"] = EnvSpec(id="coop_coding-v0", entry_point=Relay)
    assert left == [
        *(f"'{env_id}' in llm_marl_envs.core.specs" for env_id in ("coop_coding-v0", "debate-v0")),
        "'word_pair-v0' in llm_marl_envs.core.specs",
        "'llm_marl/word_pair-v0' in Gymnasium's registry",
        "'llm_marl/word_pair-v0' in PettingZoo's AEC registry",
        "'llm_marl/word_pair-v0' in PettingZoo's parallel registry",
    ]
    assert registries() == before
    with restored() as left:
        pass
    assert left == []


def test_a_test_that_leaves_something_registered_fails(tmp_path: Path) -> None:
    """Alone and in a fixture of its module; the tests after it see nothing of it."""
    (tmp_path / "conftest.py").write_bytes((Path(__file__).parents[2] / "conftest.py").read_bytes())
    (tmp_path / "test_leaks.py").write_text(
        "import pytest\n"
        "from llm_marl_envs.core.specs import list_envs, register\n"
        "from support.toys import WordPair\n"
        "def test_leaks():\n"
        "    register('leak-v0', WordPair)\n"
        "def test_after_it():\n"
        "    assert 'leak-v0' not in list_envs()\n"
        "@pytest.fixture(scope='module')\n"
        "def leak():\n"
        "    register('leak-v1', WordPair)\n"
        "def test_of_the_module(leak):\n"
        "    assert 'leak-v1' in list_envs()\n"
    )
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "tests"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "3 passed, 2 errors" in done.stdout
    assert "left registered or changed: 'leak-v0' in llm_marl_envs.core.specs" in done.stdout
    assert "'llm_marl/leak-v1' in PettingZoo's AEC registry" in done.stdout
