"""The doors: names of other packages, of modules that are not installed, and of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.paths import ROOT

from llm_marl_envs import list_envs, make, register, spec
from llm_marl_envs.cli import main
from llm_marl_envs.commands import COMMANDS, Command
from llm_marl_envs.commands.exit_status import packages
from llm_marl_envs.core import plugins
from llm_marl_envs.core.plugins import Registry, entries, from_reference
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.named import Context, named_policy, register_policy
from llm_marl_envs.scorers import open_scorer

pytestmark = pytest.mark.full  # `make test-all` runs it

STRANGER = ROOT / "tests" / "support" / "stranger_package"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the stranger's package."""
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(STRANGER, tmp_path_factory.mktemp("source") / "package")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def run_in(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess:
    """`llm-marl` in `folder`, with `path` in front of what is installed."""
    paths = os.pathsep.join(str(one) for one in (path, ROOT) if one is not None)
    return subprocess.run(
        [sys.executable, "-P", "-m", "llm_marl_envs.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_installed_package_is_used_by_name(installed: Path, tmp_path: Path) -> None:
    listed = run_in(tmp_path, "list", path=installed)
    assert "echo-v0\n    From the package stranger-marl." in listed.stdout
    command = ("eval", "echo-v0", "--team", "parrot", "--partner", "right_0=parrot:birch")
    done = run_in(tmp_path, *command, "--tasks", "3", "--output", "out", path=installed)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "summary.json").is_file()
    assert "0.33" in done.stdout  # right_0 is right in one task of three
    assert "upper: a text in capital" in run_in(tmp_path, "tools", path=installed).stdout
    equipped = (*command, "--set", "tools={left_0: [upper]}", "--tasks", "3")
    done = run_in(tmp_path, *equipped, path=installed)
    assert done.returncode == 0, done.stderr
    refused = run_in(tmp_path, *command, "--split", "nowhere", path=installed)
    assert refused.returncode == 2
    assert refused.stderr == "llm-marl eval: there is no split 'nowhere'\n"
    assert run_in(tmp_path, "greet", "Ada", path=installed).stdout == "hello, Ada\n"
    shown = run_in(tmp_path, "--help", path=installed).stdout
    assert "Greet somebody." in shown
    assert "(broken: 'broken' of stranger-marl (stranger_marl.not_there:BROKEN)" in " ".join(
        shown.split()
    )
    for arguments in (("broken",), ("eval", "echo-v0", "--team", "lost", "--tasks", "1")):
        failed = run_in(tmp_path, *arguments, path=installed)
        assert failed.returncode == 2
        assert "of stranger-marl (stranger_marl.not_there:" in failed.stderr


def test_code_that_is_not_installed(tmp_path: Path) -> None:
    shutil.copytree(STRANGER / "stranger_marl", tmp_path / "mine")
    (tmp_path / "registers.py").write_text(
        "from mine import Echo, parrot\n"
        "from llm_marl_envs import register\n"
        "from llm_marl_envs.policies.named import register_policy\n"
        "register('mine-v0', Echo)\n"
        "register_policy('polly', parrot)\n"
    )
    direct = run_in(tmp_path, "eval", "mine:Echo", "--team", "mine:parrot", "--tasks", "3")
    assert direct.returncode == 0, direct.stderr
    argued = run_in(tmp_path, "eval", "mine:Echo", "--team", "mine:parrot:birch", "--tasks", "3")
    assert "0.33" in argued.stdout  # right in one task of three
    by_name = ("eval", "mine-v0", "--team", "polly", "--tasks", "3")
    assert run_in(tmp_path, *by_name).returncode == 2
    for arguments in (("--plugin", "registers", *by_name), (*by_name, "--plugin", "registers")):
        done = run_in(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    failed = run_in(tmp_path, "--plugin", "not_there", "list")
    assert failed.returncode == 2
    assert "plug-in 'not_there'" in failed.stderr


def declare(folder: Path, name: str, group: str, *lines: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))


def test_a_doubled_name_is_a_warning_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "llm_marl_envs.policies"
    declare(tmp_path, "one", group, "bird = a:b", "random = a:c")
    declare(tmp_path, "two", group, "bird = a:d", "fish = a:e")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="both have a") as warned:
        found = entries(group)
    said = sorted(str(one.message) for one in warned)
    assert len(said) == 2
    assert "llm-marl-envs and one both have a 'random'; that of llm-marl-envs" in said[0]
    assert "both have a 'bird'" in said[1]
    assert found["random"].distribution == "llm-marl-envs"
    assert found["fish"].distribution == "two"
    assert "a" not in sys.modules  # nothing is imported


def test_an_environment_of_a_taken_id_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, "other", "llm_marl_envs.environments", "debate-v0 = a:b")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="llm-marl-envs and other both have a 'debate-v0'"):
        assert spec("debate-v0").entry_point != "a:b"


def test_a_malformed_id_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, "other", "llm_marl_envs.environments", "Debate = a:b")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="an entry of other is not used: environment id 'Debate'"):
        assert "debate-v0" in list_envs()


@pytest.mark.parametrize("group", ["llm_marl_envs.environments", "trainers.algorithms"])
def test_errors_of_every_package_behind_a_door_are_messages(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, "other", group, "mine-v0 = only_here.envs:Mine")
    assert "only_here" not in packages()
    monkeypatch.syspath_prepend(tmp_path)
    assert "only_here" in packages()


@pytest.mark.usefixtures("own_registry")
def test_what_the_program_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ScriptedPolicy(lambda request: "")
    register_policy("mute", lambda argument, context: silent)
    env = make("debate-v0")
    assert named_policy("mute:x", Context(env=env)) is silent
    register_policy("number", lambda argument, context: 3)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r"policy 'number': expected an object with act"):
        named_policy("number", Context(env=env))
    with pytest.raises(ValueError, match="policy 'random' is there already"):
        register_policy("random", lambda argument, context: silent)
    with pytest.raises(ValueError, match="no policy 'exprt'; did you mean 'expert'"):
        named_policy("exprt", Context(env=env))
    register("pair-v0", "support.toys:WordPair", api=None)
    assert make("pair-v0").max_turns == 2


@pytest.mark.parametrize("kind", ["random", "silent", "agreed"])
def test_a_policy_without_an_argument_refuses_one(kind: str) -> None:
    context = Context(env=make("debate-v0"))
    named_policy(kind, context)
    with pytest.raises(ValueError, match=f"policy '{kind}:3': '{kind}' takes no argument; say"):
        named_policy(f"{kind}:3", context)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("json", ValueError, "expected 'module:Name'"),
        ("json:", ValueError, "expected 'module:Name'"),
        ("json:no_such", ImportError, "module json has no 'no_such'"),
        ("no_such_module:x", ModuleNotFoundError, "no_such_module"),
    ],
)
def test_a_reference_that_leads_nowhere(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        from_reference(text)


def test_a_module_written_as_a_script_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script_that_exits.py").write_text("import sys\nsys.exit(3)\n")
    declare(tmp_path, "other", "llm_marl_envs.policies", "gone = script_that_exits:x")
    monkeypatch.syspath_prepend(tmp_path)
    said = r"module script_that_exits ends the program when it is imported \(SystemExit: 3\)"
    with pytest.raises(ImportError, match=said):
        plugins.import_plugins(["script_that_exits"])
    with pytest.raises(ImportError, match=said):
        make("script_that_exits:Env")
    with pytest.raises(ImportError, match=f"'gone' of other .*{said}"):
        entries("llm_marl_envs.policies")["gone"].load()


@pytest.mark.parametrize("name", ["./mine.py", "dir/mine", "", "mine."])
def test_a_plug_in_is_a_module(name: str) -> None:
    with pytest.raises(ImportError, match="expected a module's name, as in my_module"):
        plugins.import_plugins([name])


def test_extras_may_stand_behind_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = "llm_marl_envs.environments"
    declare(tmp_path, "other", group, "words-v0 = support.toys:WordPair [some, more]")
    monkeypatch.syspath_prepend(tmp_path)
    assert make("words-v0").spec.entry_point == "support.toys:WordPair"


def test_environments_by_reference() -> None:
    env = make("support.toys:WordPair", turns=3)
    assert (env.spec.id, env.max_turns) == ("support.toys:WordPair", 3)
    assert make("support.toys:Relay").spec.api is None
    with pytest.raises(TypeError, match="which is no ParallelEnv or AECEnv"):
        make("support.toys:word_tasks")
    with pytest.raises(ImportError, match=r"module support\.toys has no 'Nothing'"):
        make("support.toys:Nothing")


def test_a_reference_to_something_of_another_kind() -> None:
    function = r"expected a function \(argument, context\) -> policy, got "
    for name in ("math:pi", "support.toys:WordPair", "llm_marl_envs.policies:RandomPolicy"):
        with pytest.raises(TypeError, match=f"policy '{name}': {function}"):
            named_policy(name, Context(env=make("debate-v0")))
    with pytest.raises(
        TypeError, match=r"math:pi: expected a PettingZoo environment's class, or a"
    ):
        make("math:pi")
    for name in ("math:pi", "support.toys:WordPair", "math:pow"):
        with pytest.raises(TypeError, match=f"scorer '{name}': expected a class with `score`"):
            open_scorer(name)
    assert open_scorer("llm_marl_envs.scorers.reference:ReferenceScorer").scorer.score([]) == []
    with pytest.raises(ImportError, match="policy 'no_such:x': No module named 'no_such'"):
        named_policy("no_such:x", Context(env=make("debate-v0")))


def test_own_names_are_those_of_this_checkout() -> None:
    """Each can be imported, whatever is installed; what needs torch is behind the same door."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, named in project["entry-points"].items():
        found = entries(group)
        for name, value in named.items():
            assert (found[name].value, found[name].distribution) == (value, plugins.DISTRIBUTION)
            made = found[name].load()
            if group.endswith((".commands", ".recipes")):  # records
                assert made.about
            else:
                assert callable(made)


def test_a_broken_command_breaks_itself_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(parser: object) -> None:
        raise ValueError("no such argument")

    fine = Command(name="fine", about="100% fun", example="", run=lambda options: print("50%"))
    broken = replace(fine, add=add)
    for name, command in (("fine", fine), ("broken", broken), ("number", 3)):
        monkeypatch.setitem(COMMANDS.added, name, command)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "100% fun" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["fine", "--help"])
    assert "100% fun" in capsys.readouterr().out
    assert main(["fine"]) == 0
    with pytest.raises(ValueError, match="no such argument"):  # a bug of whoever wrote it
        main(["broken"])
    assert main(["number"]) == 2
    said = capsys.readouterr().err
    assert "llm-marl number: command 'number': expected a commands.Command, got 3" in said


def test_listing_commands_and_policies_imports_no_torch(run_python: Callable[..., str]) -> None:
    program = (
        "import sys, llm_marl_envs\n"
        "from llm_marl_envs.cli import _parser\n"
        "from llm_marl_envs.policies.named import POLICIES\n"
        "_parser().format_help(); print(len(POLICIES.names()))\n"
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'pandas', 'matplotlib', 'scipy'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    count, heavy = run_python(program).split("\n")[:2]
    assert int(count) >= 6
    assert heavy == ""


def test_a_registry_knows_what_it_is_for() -> None:
    birds = Registry("no.such.group", "bird")
    birds.add("wren", 1)
    birds.add("wren", 1)
    assert birds.names() == ["wren"]
    with pytest.raises(ValueError, match="bird 'wren' is there already"):
        birds.add("wren", 2)
    with pytest.raises(ValueError, match=r"no bird 'owl'; known: \['wren'\]"):
        birds.get("owl")
