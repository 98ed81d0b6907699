"""Files that are whole or absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_marl_envs.files.atomic import check_folder, make_folder, replacing


def test_what_was_written_takes_the_place_at_the_end(tmp_path: Path):
    path = tmp_path / "new" / "file"
    with replacing(path) as partial:
        partial.write_text("first")
        assert not path.exists()
    with replacing(path) as partial:
        partial.write_text("second")
        assert path.read_text() == "first"
    assert path.read_text() == "second"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "new", tmp_path / "file" / "deeper" / "new"):
        with pytest.raises(ValueError, match="file: a file; expected a folder"), replacing(path):
            pass


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="a folder; expected a file"), replacing(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_pipe_is_written_and_not_replaced():
    reads, writes = os.pipe()
    with replacing(f"/dev/fd/{writes}") as place:
        place.write_text("through")
    assert os.read(reads, 99) == b"through"
    os.close(reads)
    os.close(writes)


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for folder in (link, link / "new"):
        for use in (check_folder, make_folder):
            with pytest.raises(ValueError, match="link: a link that leads nowhere"):
                use(folder)


def test_after_an_error_the_file_is_what_it_was(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_may_be_made_is_tried_and_not_made(tmp_path: Path):
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_is_no_folder(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("kept")
    for refuse in (check_folder, make_folder):
        with pytest.raises(ValueError, match="file: a file"):
            refuse(tmp_path / place)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that even root cannot fill")
@pytest.mark.parametrize("refuse", [check_folder, make_folder])
def test_a_refusal_of_the_system_names_the_folder(refuse: Callable[[Path], None]):
    with pytest.raises(OSError, match="/proc/x: cannot be written"):
        refuse(Path("/proc/x"))
