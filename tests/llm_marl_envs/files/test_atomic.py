"""Files that are whole or absent."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.full_disk import full_disk

from llm_marl_envs.files.atomic import check_folder, make_folder, naming, replacing
from llm_marl_envs.files.cache import written_whole
from llm_marl_envs.files.json_files import write_json


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_device_is_named():
    said = pytest.raises(OSError, match="/dev/full: could not be written")
    with said, replacing("/dev/full") as place:
        place.write_text("no room")


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


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path):
    """The system's error names none."""
    path = tmp_path / "file.json"
    write_json(path, "before")
    with (
        full_disk(100),
        pytest.raises(OSError, match=rf"^{re.escape(str(path))}: could not be written \(File too"),
    ):
        write_json(path, "x" * 10_000)
    assert path.read_text() == '"before"\n'
    folder = tmp_path / "model"
    (folder / "policy").mkdir(parents=True)

    def write() -> None:
        with written_whole(folder) as made:
            (made / "policy").mkdir()
            (made / "policy" / "config").write_text("short")
            (made / "policy" / "weights").write_bytes(bytes(10_000))

    words = rf"^{folder}/policy/weights: could not be written"
    with full_disk(100), pytest.raises(OSError, match=words):
        write()
    assert [p.name for p in (folder / "policy").iterdir()] == []
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOENT, "No such file", "elsewhere"),
        OSError(errno.ENOSPC, "No space left", "elsewhere"),  # which names one
        ConnectionResetError(errno.ECONNRESET, "reset"),
        OSError("disk full"),
        RuntimeError("CUDA error: device-side assert"),
        ValueError("a mistake"),
    ],
    ids=repr,
)
def test_errors_that_say_something_else_pass_through(error: Exception, tmp_path: Path):
    with pytest.raises(type(error)) as raised, naming(tmp_path):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "last: .*No space left on device"),
        (Exception("No space left on device (os error 28)"), "last: .*No space left on device"),
        (OSError("[Errno 122] Error writing bytes to file"), "last: .*quota"),
        (
            RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos"),
            "last: .*full",
        ),
    ],
    ids=repr,
)
def test_what_libraries_say_of_a_full_disk_names_the_file(
    error: Exception, words: str, tmp_path: Path
):
    """In a folder, the one that was written last."""
    for number, name in enumerate(("last", "first")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (9 - number, 9 - number))
    with pytest.raises(OSError, match=words), naming(tmp_path):
        raise error
