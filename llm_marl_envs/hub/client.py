"""The Hugging Face Hub through its own client: which calls are made, and how failures are said.

The token is the client's affair (`hf auth login`, or HF_TOKEN): no function here takes one, and it
is taken out of every message. Where the Hub is, HF_ENDPOINT says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from llm_marl_envs.core.errors import WorkFailedError
from llm_marl_envs.core.extras import Extra

Kind = Literal["model", "dataset"]
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,199}")
COMMIT = re.compile(r"[0-9a-f]{40}")
TOKEN = re.compile(rb"hf_[A-Za-z0-9]{20,}")
"""What an access token of the Hub looks like."""


MOST_ENTRIES = 10_000
"""Files and folders of a repository that are looked at; a team has some dozens."""


class TooLargeError(ValueError):
    """A repository holds or sends more than may be fetched."""


class HubError(WorkFailedError):
    """The Hub cannot be reached, or does not do what was asked."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository and, where somebody named one, its revision.

    Attributes:
        name: owner/name.
        revision: a branch, a tag or a commit; None for the newest state of `main`.
        kind: what the Hub files it under.
    """

    name: str
    revision: str | None = None
    kind: Kind = "model"

    @classmethod
    def named(cls, text: str, kind: Kind = "model") -> Repository:
        """Of "owner/name" or "owner/name@revision".

        Raises:
            ValueError: anything else.
        """
        name, at, revision = text.partition("@")
        if not NAME.fullmatch(name) or ".." in name or (at and not REVISION.fullmatch(revision)):
            raise ValueError(
                f"{text!r:.200}: expected owner/name of a repository on the Hub, or "
                "owner/name@revision"
            )
        return cls(name, revision or None, kind)

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name}@{self.revision}"


@dataclass(frozen=True, slots=True)
class Listed:
    """What a repository holds.

    Attributes:
        commit: 40 hexadecimal digits.
        files: path -> bytes.
        others: paths of what is no file.
    """

    commit: str
    files: Mapping[str, int]
    others: Sequence[str]


def library() -> Any:
    """`huggingface_hub`.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # it reads that when it is imported
    with Extra("hub", "the Hugging Face Hub"):
        import huggingface_hub
    return huggingface_hub


def own_token() -> str | None:
    """The token that the client would send; for looking whether it stands anywhere."""
    return library().get_token()


@contextmanager
def asking(what: str) -> Iterator[Any]:
    """`HfApi`, for calls that do `what`; an error is one line without the token.

    Raises:
        HubError: the Hub refuses, or cannot be reached.
    """
    hub = library()
    try:
        yield hub.HfApi(library_name="llm-marl-envs")
    except TooLargeError:
        raise
    except Exception as error:  # noqa: BLE001 - of the client and of what it sends through
        status = getattr(getattr(error, "response", None), "status_code", None)
        raise HubError(f"{what}: {_hint(status, error)}") from None


def _hint(status: int | None, error: Exception) -> str:
    said = " ".join(str(error).split())
    token = own_token()
    if token:
        said = said.replace(token, "***")
    said = TOKEN.sub(b"***", said.encode()).decode()[:300]
    if status == 401 and token:
        return f"the Hub does not take your token (`hf auth login`, or HF_TOKEN) [{said[:80]}]"
    if status in (401, 404):
        return (
            "there is no such repository, revision or file, or it is private and you are not "
            f"logged in (`hf auth login`, or HF_TOKEN) [{said.partition('. ')[0]}]"
        )
    if status == 403:
        return f"your token may not do this; it needs the right to write [{said}]"
    return f"the Hub did not do it ({type(error).__name__}: {said})"


def list_files(repository: Repository) -> Listed:
    """What a repository holds at a revision.

    Raises:
        TooLargeError: more than `MOST_ENTRIES` files.
        HubError: as `asking`.
    """
    with asking(str(repository)) as api:
        of = {"repo_type": repository.kind}
        commit = api.repo_info(repository.name, revision=repository.revision, **of).sha
        tree = api.list_repo_tree(repository.name, revision=commit, recursive=True, **of)
        entries = list(islice(tree, MOST_ENTRIES + 1))
    if len(entries) > MOST_ENTRIES:
        raise TooLargeError(f"{repository}: refused, it has more than {MOST_ENTRIES:,} files")
    if not COMMIT.fullmatch(str(commit)):  # it becomes the name of a folder
        raise HubError(f"{repository}: the Hub calls a commit {commit!r:.80}, which none is called")
    sizes = {entry.path: getattr(entry, "size", None) for entry in entries}
    return Listed(
        commit=str(commit),
        files={path: size for path, size in sizes.items() if size is not None},
        others=[path for path, size in sizes.items() if size is None],
    )


def fetch(
    repository: Repository, commit: str, paths: Sequence[str], folder: Path, *, most: int
) -> None:
    """Write files of a commit into a folder, under their paths.

    Raises:
        TooLargeError: more than `most` bytes come, whatever was listed.
        HubError: as `asking`.
    """
    came = 0

    class Counting(library().utils.tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            nonlocal came
            came += int(n or 0)
            if came > most:
                raise TooLargeError(
                    f"{repository}: stopped, more than {most:,} bytes came; the listing said less"
                )
            return super().update(n)

    with asking(str(repository)):
        for path in paths:
            library().hf_hub_download(
                repository.name,
                path,
                revision=commit,
                repo_type=repository.kind,
                local_dir=folder,
                tqdm_class=Counting,
            )


def send(
    repository: Repository, files: Mapping[str, Path], *, mark: str, private: bool, message: str
) -> str:
    """Make the repository where it is missing, and commit files; says where, and who reads it.

    Files that an earlier push left and this one lacks are deleted in the same commit.

    Args:
        repository: its `main` branch.
        files: path there -> file here.
        mark: the file that a repository of this kind has; one with other data is left alone.
        private: whether a new one is; a public one is refused then.
        message: of the commit.

    Raises:
        ValueError: it is public and `private` is asked for, or holds something else.
        HubError: as `asking`.
    """
    if repository.revision is not None:
        raise ValueError(f"{repository}: a push goes to main; leave out @{repository.revision}")
    of = {"repo_type": repository.kind}
    with asking(str(repository)) as api:
        api.create_repo(repository.name, private=private, exist_ok=True, **of)
        public = not api.repo_info(repository.name, **of).private
    if public and private:
        raise ValueError(
            f"{repository} is there and is public: everybody could read what you push; say "
            "--public, or make it private first"
        )
    there = {path for path in list_files(repository).files if _is_data(path)}
    if there and mark not in there:
        raise ValueError(
            f"{repository} is there and holds something else ({min(there)}, no {mark}); choose "
            "another name"
        )
    left = there - {*files}
    hub = library()
    changes = [hub.CommitOperationAdd(path, str(file)) for path, file in files.items()]
    changes += [hub.CommitOperationDelete(path) for path in sorted(left)]
    with asking(str(repository)) as api:
        done = api.create_commit(repository.name, changes, commit_message=message, **of)
    return f"{done.commit_url} ({'everybody can read it' if public else 'private'})"


def _is_data(path: str) -> bool:
    """Whether a file is more than the words that people add to a repository."""
    name = PurePosixPath(path)
    return not (len(name.parts) == 1 and (name.name.startswith(".") or name.suffix in ("", ".md")))
