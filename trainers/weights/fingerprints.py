"""What tells one folder of weights from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainers.weights.model_card import CARD_FILE

_WHOLE_BYTES = 1 << 20


def fingerprint(folder: str | Path) -> str:
    """A short hash of a folder's files: names, sizes, contents.

    Cards do not count: whoever adds a licence to one has the same team.
    Of files above 2 MiB the first and last MiB count: training changes every weight, and reading
    all of a large model would take longer than many an evaluation.
    """
    digest = hashlib.sha256()
    files = (p for p in Path(folder).rglob("*") if p.is_file() and p.name != CARD_FILE)
    for path in sorted(files):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE_BYTES))
            file.seek(max(file.tell(), size - _WHOLE_BYTES))
            digest.update(file.read())
    return f"sha256 {digest.hexdigest()[:16]}"
