"""What `make golden` keeps is as it was, as far as it costs seconds; and how it compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden.__main__ import PARTS, main, part_of
from golden.record import differences, digest, gathered, machine, numbers, read, write

pytestmark = pytest.mark.full  # `make test-all` runs it

QUICK = ("tasks", "benchmark", "episodes", "playthroughs", "advantages", "rows")
"""The others are training runs: `make golden`."""


@pytest.mark.parametrize("part", QUICK)
def test_nothing_has_changed_unseen(part: str, tmp_path: Path) -> None:
    made_on, kept = read()
    was = {name: value for name, value in kept.items() if part_of(name) == part}
    now = gathered([PARTS[part](tmp_path)])
    found = differences(was, now, same_machine=made_on == machine())
    if any(one.judged for one in found):
        lines = "\n".join(map(str, found[:20]))
        pytest.fail(f"{len(found)} differ; `make golden RENEW=1` if all of it is meant:\n{lines}")


def test_every_part_is_recorded() -> None:
    assert {part_of(name) for name in read()[1]} == {*PARTS}


def test_numbers_agree_up_to_rounding_and_digests_to_the_letter() -> None:
    was = {"a": [1.0, 2000.0], "b": "one", "c": "old", "e": [1.0]}
    now = {"a": [1.000001, 2000.01], "b": "One", "d": "new", "e": [1.0, 2.0]}
    found = differences(was, now, same_machine=True)
    assert [one.name for one in found] == ["b", "c", "d", "e"]
    assert [str(one) for one in found[:3]] == ["b: was one, is One", "c: gone", "d: new"]
    assert not differences({"a": [0.0]}, {"a": [1e-12]}, same_machine=True)
    assert differences({"a": [1.0]}, {"a": [1.001]}, same_machine=True)


def test_on_another_machine_numbers_are_shown_and_not_judged() -> None:
    (one,) = differences({"a": [1.0]}, {"a": [2.0]}, same_machine=False)
    assert not one.judged
    assert str(one) == "a: was [1.0], is [2.0]  (rounded elsewhere, not judged)"
    (two,) = differences({"a": "x"}, {"a": "y"}, same_machine=False)
    assert two.judged


def test_numbers_move_with_any_element_and_with_their_order() -> None:
    """Sum 6, norm sqrt(14), projection cos 1 + 2 cos 2 + 3 cos 3."""
    assert numbers([1, 2, 3]) == pytest.approx(
        [6, 14**0.5, 0.5403023 - 2 * 0.4161468 - 3 * 0.9899925]
    )
    assert numbers([2, 1, 3])[2] != numbers([1, 2, 3])[2]
    assert digest(("a", 1)) != digest(("a", 2))


def test_a_text_lies_in_a_file_of_its_own_and_its_lines_are_told(tmp_path: Path) -> None:
    file = tmp_path / "golden" / "golden.json"
    file.parent.mkdir()
    was = {"playthroughs/one-v0": "a hears\n    b\na says\n    yes\n", "rows/packed": "x"}
    write({**was, "playthroughs/two-v0": "c\n"}, file)
    assert (tmp_path / "playthroughs" / "one-v0.txt").read_text() == was["playthroughs/one-v0"]
    write(was, file)
    assert read(file)[1] == was, "what is gone has no file"
    now = {**was, "playthroughs/one-v0": "a hears\n    b\na says\n    no\n"}
    (one,) = differences(was, now, same_machine=False)
    assert one.judged
    told = str(one).splitlines()
    assert told[0] == "playthroughs/one-v0:"
    assert "    -    yes" in told
    assert "    +    no" in told


def test_two_things_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="called 'a'"):
        gathered([iter([("a", "x")]), iter([("a", "y")])])


def test_the_command_says_what_differs_and_renews(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "golden" / "golden.json"
    file.parent.mkdir()
    write({"rows/packed": "x", "tasks/kept": "y"}, file)
    given: list[Any] = ["rows", "--file", str(file)]
    assert main(given) == 1
    shown = capsys.readouterr().out
    assert "rows/packed: was x, is " in shown
    assert "make golden RENEW=1" in shown
    assert main([*given, "--renew"]) == 0
    assert read(file)[1]["tasks/kept"] == "y"
    assert main(given) == 0
    monkeypatch.setattr("golden.__main__.machine", lambda: {"processor": "another"})
    assert main(given) == 0
    assert "this is {'processor': 'another'}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["row"])
