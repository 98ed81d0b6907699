"""Whether a tag is the version of this library: in the package, its citation and the changelog.

python tests/support/release.py v1.2.3
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """What does not name the tag's version, one line each; empty where all agree.

    Args:
        tag: `v` and the version.
        root: of the checkout.
    """
    if not re.fullmatch(r"v\d+\.\d+\.\d+([ab]\d+|rc\d+)?", tag):
        return [f"tag {tag!r}: expected v and a version, as v1.2.3 or v1.2.3rc1"]
    version = tag[1:]
    package = (root / "llm_marl_envs" / "__init__.py").read_text(encoding="utf-8")
    named = re.search(r'^__version__ = "(.+)"', package, re.MULTILINE)
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    headings = re.findall(
        r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    says = {
        "llm_marl_envs/__init__.py": named[1] if named else None,
        "CITATION.cff": str(cited),
        "CHANGELOG.md": headings[0] if headings else None,
    }
    return [
        f"{file}: names {given}, and the tag {version}"
        for file, given in says.items()
        if given != version
    ]


def main() -> int:
    """Print what disagrees; returns 1 where something does."""
    wrong = disagreements(sys.argv[1] if len(sys.argv) > 1 else "")
    print("\n".join(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
