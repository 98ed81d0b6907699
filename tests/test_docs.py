"""The documentation site builds strictly, and its examples run."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from trainers import MAGRPOConfig
from trainers.algorithms import ALGORITHMS, AdvantageInputs, algorithm_name, make_algorithm
from trainers.recipes import RECIPES
from trainers.train import read_run

pytestmark = pytest.mark.full  # `make test-all` runs it

ROOT = Path(__file__).parent.parent
FLAGS = {"sync_ref_model", "log_completions", "fp16", "load_best_model_at_end", "use_vllm"}
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_the_site_builds_strictly_and_without_the_network(tmp_path: Path):
    """Broken links, missing pages and unknown names of the reference are errors."""
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    start = (tmp_path / "site" / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="(https?://[^"]+)"', start)
    assert not [url for url in loaded if not url.startswith("https://squidfunk.github.io")]
    assert "coop_coding-v0" in (tmp_path / "site" / "environments" / "index.html").read_text()
    pages = [page.read_text() for page in (tmp_path / "site" / "bridges").rglob("*.html")]
    shown = re.sub("<[^>]+>", "", "".join(pages))
    for example in (ROOT / "examples").glob("*.py"):
        about = example.read_text().splitlines()[0].strip('"')
        assert about in html.unescape(shown), f"{example.name} is on no page"


def filled(page: str) -> str:
    """A page with what the hooks of the site fill in."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks.on_page_markdown((ROOT / "docs" / page).read_text())


def test_the_settings_are_listed_with_what_they_take():
    pytest.importorskip("trl")
    page = filled("training_settings.md")
    assert "| `num_generations` | `8` | a whole number, at least 2 | G: episodes" in page
    assert "| `weights` | `None` | one of ('shared', 'adapters', 'separate') or None |" in page
    assert "`top_p` |" not in page


def test_the_refused_settings_are_refused():
    """The page says of each what the configuration says of it."""
    pytest.importorskip("trl")

    page = filled("howto/vllm.md")
    page = page[page.index("## What else of TRL is refused") :]
    others: dict[str, Any] = {
        "top_entropy_quantile": 0.5,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
    }
    others |= {"entropy_coef": 0.1, "loss_type": "bnpo", "generation_kwargs": {"a": 1}}
    others |= {"reward_weights": [1.0], "cache_implementation": "static"}
    named = re.findall(r"`(\w+)(?:: \w+)?`", "".join(re.findall(r"^\| (`.*?) \|", page, re.M)))
    assert len(named) > 15
    for name in [*named, "use_vllm"]:
        value: Any = others.get(name, True if name in FLAGS else 3)
        with pytest.raises(ValueError, match=name):
            MAGRPOConfig("runs/none", **{name: value})


def test_every_page_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text()
    missing = [str(p.relative_to(ROOT / "docs")) for p in PAGES]
    assert not [page for page in missing if page not in listed]


@pytest.mark.parametrize("page", ["howto/own_environment.md", "howto/own_algorithm.md"])
def test_examples_run(page: str):
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert blocks
    namespace: dict[str, object] = {"__name__": "example"}
    exec("\n".join(blocks), namespace)  # our own page


def test_examples_of_other_trainers_run():
    text = (ROOT / "docs" / "howto" / "other_trainers.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(blocks) > 3
    pytest.importorskip("textarena")
    namespace: dict[str, object] = {"__name__": "example"}
    exec("\n".join(blocks), namespace)  # our own page
    assert namespace["reward"] is not None


def pages_of_algorithms() -> list[Path]:
    return sorted(p for p in (ROOT / "docs" / "algorithms").glob("*.md") if p.stem != "index")


@pytest.mark.parametrize("page", pages_of_algorithms(), ids=lambda page: page.stem)
def test_pages_of_algorithms_have_one_shape(page: Path):
    """An example, a run file that is accepted, the definition."""
    head, example, *sections = re.split(r"\n\n|\n(?=## )", page.read_text(), maxsplit=2)
    assert head.startswith("# ")
    assert example.strip().endswith((".", ")."))
    assert re.findall(r"^## .*", sections[0], re.M)[:2] == ["## In a run file", "## Definition"]
    runs = re.findall(r"```yaml\n(.*?)```", sections[0].split("## Definition")[0], re.S)
    trainers = [yaml.safe_load(run)["trainer"] for run in runs]
    assert any(page.stem == algorithm_name(one["algorithm"]) for one in trainers)
    for settings in trainers:
        MAGRPOConfig("runs/none", **settings)


def test_every_algorithm_has_a_page():
    named = {*ALGORITHMS.names(), *RECIPES.names()} - {"c3_sim"}  # which is on the page of c3
    assert {page.stem for page in pages_of_algorithms()} == named


def one_agent(returns: Any) -> AdvantageInputs:
    """One task's episodes of one agent, who takes every turn; `returns` is (G, K)."""
    values = np.array(returns, float)[None, :, None, :]  # (P=1, G, A=1, K)
    return AdvantageInputs(
        returns=values,
        rewards=values,
        alive=np.ones(values.shape, bool),
        agents=("a_0",),
        policies={"a_0": "a_0"},
        groups=(),
    )


@pytest.mark.parametrize(
    ("name", "returns", "expected"),
    [
        ("magrpo", [[0], [1], [5]], [[-3], [-1.5], [4.5]]),
        ("rejection", [[0], [1], [5]], [[0], [0], [1]]),
        ("hysteretic", [[0], [1], [5]], [[-0.6], [-0.3], [4.5]]),
        ("mareinforce", [[0], [0], [1], [1]], [[0], [0], [1], [1]]),
        ("maremax", [[0], [0], [1], [1]], [[-1], [-1], [0], [0]]),
        ("marshal", [[3, 1], [2, 0]], [[2, 0], [0, -2]]),
    ],
)
def test_the_examples_of_algorithms_are_right(name: str, returns: Any, expected: Any):
    text = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text().split("## ")[0]
    assert all(f"{number:g}" in text for row in expected for number in row)
    recipe = RECIPES.get(name) if name in RECIPES else None
    args = MAGRPOConfig("runs/none", algorithm=name)
    algorithm = make_algorithm(args.algorithm, args)
    assert recipe is None or args.recipe == name
    assert algorithm.advantages(one_agent(returns))[0, :, 0] == pytest.approx(
        np.array(expected, float)
    )


def test_the_leave_one_out_example_computes_what_it_says():
    text = (ROOT / "docs" / "howto" / "own_algorithm.md").read_text()
    namespace: dict[str, object] = {"__name__": "example"}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S)), namespace)
    args = SimpleNamespace(baseline="leave_one_out", scale_rewards="none")
    algorithm = namespace["LeaveOneOut"](args)  # type: ignore[operator]
    advantages = algorithm.advantages(one_agent([[1], [2], [6]]))
    assert advantages.ravel().tolist() == [-3.0, -1.5, 4.5]


def test_the_commands_of_the_answers_are_accepted():
    """They were run once; what they are made of is still there."""
    from llm_marl_envs import cli

    text = (ROOT / "docs" / "answers.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert len(re.findall("^## ", text, re.M)) == 10
    assert len(lines) >= 10
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "llm-marl"
        cli._parser().parse_args(arguments)
        if "--config" in arguments and arguments[arguments.index("--config") + 1] != "run.yaml":
            taken = [arguments[i + 1] for i, one in enumerate(arguments) if one == "--override"]
            run = read_run(arguments[arguments.index("--config") + 1], taken)
            MAGRPOConfig(**run["trainer"])
