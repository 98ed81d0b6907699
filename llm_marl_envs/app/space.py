"""What a Hugging Face Space needs to show the app: a Dockerfile, a card, and the wheel.

No index has the distribution, so the wheel lies in the Space itself. Nothing is sent anywhere:
`git push`, or the upload page of the Space, does that.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from zipfile import is_zipfile

from llm_marl_envs import __version__
from llm_marl_envs.files.atomic import make_folder, replacing

CARD = """---
title: Teams of language models
emoji: 🧩
colorFrom: blue
colorTo: green
sdk: docker
app_port: 7860
license: apache-2.0
short_description: Take a seat in a team, beside experts and models
---

The pages of `llm-marl app`, version {version}. Saved teams and models that lie in `runs` can take a
seat. A team of adapters needs its base model: put teams there as `llm-marl pull-team` writes them.
Without teams `[app]` in the Dockerfile is enough, and makes a much smaller image.
"""
DOCKERFILE = """FROM python:3.11-slim
RUN useradd --create-home player
WORKDIR /home/player
COPY {wheel} .
RUN pip install --no-cache-dir './{wheel}[app,train]'
COPY --chown=player . .
USER player
ENV PYTHONUNBUFFERED=1
EXPOSE 7860
CMD ["llm-marl", "app", "runs", "--host", "0.0.0.0", "--port", "7860", \\
     "--frame", "https://huggingface.co"]
"""


def write_space(folder: str | Path, wheel: str | Path | None = None) -> str:
    """Write the files of a Space into a folder; says what is there.

    Args:
        folder: made where it is not there; files of these names are replaced, which is said.
        wheel: of this distribution; the newest in `dist` where None.

    Raises:
        ValueError: no such wheel.
    """
    chosen = Path(wheel) if wheel is not None else _newest()
    if not (chosen.name.startswith("llm_marl_envs-") and is_zipfile(chosen)):
        raise ValueError(f"{chosen}: expected the wheel of llm-marl-envs; `make wheel` builds it")
    place = Path(folder)
    make_folder(place / "runs")
    texts = {
        "README.md": CARD.format(version=__version__),
        "Dockerfile": DOCKERFILE.format(wheel=chosen.name),
    }
    replaced = [name for name in (*texts, chosen.name) if (place / name).exists()]
    for name, text in texts.items():
        with replacing(place / name) as partial:
            partial.write_text(text, encoding="utf-8")
    with replacing(place / chosen.name) as partial:
        shutil.copyfile(chosen, partial)
    (place / "runs" / ".gitkeep").touch()  # git keeps no empty folder
    said = f"{place}: {', '.join([*texts, chosen.name])}. Put pulled teams into {place / 'runs'}."
    return f"{said} Replaced: {', '.join(replaced)}." if replaced else said


def _newest() -> Path:
    wheels = sorted(Path("dist").glob("llm_marl_envs-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise ValueError(
            "no wheel in dist: name one with --wheel; in a checkout `make wheel` builds it"
        )
    return wheels[-1]
