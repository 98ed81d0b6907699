"""What every push has in common: no token in the files, what a dry run prints, the push itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_marl_envs.hub.client import TOKEN, Repository, own_token, send
from llm_marl_envs.hub.team_repository import size_lines

NUMBERS = (".safetensors", ".parquet")
"""Files in which nobody could have written a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What is to be sent where.

    Attributes:
        repository: where.
        files: path there -> file here.
        mark: the file that tells such a repository from others.
        message: of the commit.
        public: whether everybody may read a repository that is made for it.

    Raises:
        ValueError: a file holds an access token.
    """

    repository: Repository
    files: Mapping[str, Path]
    mark: str
    message: str
    public: bool = False

    def __post_init__(self) -> None:
        refuse_tokens(self.files)

    def lines(self) -> list[str]:
        """Each file with its size in bytes, and all together."""
        return size_lines({path: file.stat().st_size for path, file in self.files.items()})

    def send(self) -> str:
        """Push; returns the commit's address, and who can read it.

        Raises:
            ValueError: as `client.send`.
            HubError: the Hub refuses, or cannot be reached.
        """
        private = not self.public
        return send(
            self.repository, self.files, mark=self.mark, private=private, message=self.message
        )


def refuse_tokens(files: Mapping[str, Path]) -> None:
    """Refuse files in which an access token of the Hub stands; it is not quoted.

    Raises:
        ValueError: names the file.
    """
    own = (own_token() or "").encode()
    for path, file in files.items():
        held = b"" if file.suffix in NUMBERS else file.read_bytes()
        if TOKEN.search(held) or (own and own in held):
            raise ValueError(f"{path}: holds an access token of the Hub; nothing was sent")
