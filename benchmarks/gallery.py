"""The gallery of environments: docs/gallery.md, and a picture of each in docs/gallery.

    python -m benchmarks.gallery

Each picture is an episode of scripted experts who share their conventions, as `render_mode="html"`
shows it. The page keeps a digest of that, so a test sees where a picture is out of date. Needs
chromium or chrome on the PATH, and pillow, which comes with matplotlib.
"""

from __future__ import annotations

import hashlib
import html
import shutil
import subprocess
import tempfile
from pathlib import Path

from llm_marl_envs import list_envs, make, spec
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.named import Context, named_team

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "gallery.md"
FOLDER = DOCS / "gallery"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT, COLOURS = 640, 440, 24
COLUMNS = 2
HEAD = """# Gallery

One episode of each environment, on its first training task, played by scripted experts who share
their conventions. What a seat is told is grey, what it says is blue. Long episodes are cut.
`render_mode="html"` draws them, and `python -m benchmarks.gallery` makes this page.
"""
STYLE = f"""
body {{ margin: 0; background: #fff; color: #222; font: 12.5px/1.4 sans-serif; }}
article {{ box-sizing: border-box; height: {HEIGHT}px; overflow: hidden; padding: 10px 14px;
  display: flex; flex-wrap: wrap; gap: 8px 12px; align-content: flex-start;
  align-items: flex-start; }}
h1 {{ display: none; }}
h2 {{ margin: 0 0 3px; font-size: 13px; }}
svg {{ max-width: 100%; flex: none; }}
svg.network {{ zoom: 0.5; }}
svg.candidates {{ zoom: 0.73; }}
section {{ flex: 1 1 170px; min-width: 0; }}
pre {{ margin: 0 0 4px; padding: 4px 7px; border-radius: 5px; white-space: pre-wrap;
  overflow-wrap: anywhere; font: inherit; background: #eee; }}
pre.assistant {{ background: #d6e6fb; font-family: monospace; }}
"""


def page_of(env_id: str) -> str:
    """The HTML of an environment's episode; the same in every process."""
    env = make(env_id, render_mode="html")
    team = named_team("agreed", Context(env=env)).seats
    rollout(VectorTextEnv([env]), team, [Start(task=0)])
    return env.render()


def digest(page: str) -> str:
    """What changes where the episode does."""
    return hashlib.sha256(page.encode()).hexdigest()[:12]


def stem(env_id: str) -> str:
    """The name of an environment's page and picture."""
    return env_id.rpartition("-v")[0]


def gallery(pages: dict[str, str]) -> str:
    """The page, from each environment's HTML."""
    cells = [
        f"[**{env_id}**](environments/{stem(env_id)}.md)<br>{html.escape(spec(env_id).summary)}<br>"
        f"![An episode of {env_id}](gallery/{stem(env_id)}.png)<!-- {digest(page)} -->"
        for env_id, page in pages.items()
    ]
    cells += [""] * (-len(cells) % COLUMNS)
    rows = [cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)]
    lines = ["| " + " | ".join(row) + " |" for row in ([""] * COLUMNS, ["---"] * COLUMNS, *rows)]
    return "\n".join([HEAD, *lines, ""])


def take(page: str, picture: Path) -> None:
    """Let a browser draw a page, and keep few colours of it.

    Raises:
        RuntimeError: there is no browser.
    """
    from PIL import Image

    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise RuntimeError(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        file, shot = Path(folder, "page.html"), Path(folder, "shot.png")
        text = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{page}"
        file.write_text(text, encoding="utf-8")
        options = f"--headless --no-sandbox --disable-gpu --hide-scrollbars --screenshot={shot} "
        options += f"--window-size={WIDTH},{HEIGHT}"
        subprocess.run(
            [browser, *options.split(), file.as_uri()], check=True, capture_output=True, timeout=120
        )
        with Image.open(shot) as image:
            few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(picture, optimize=True)


def main() -> None:
    """Play, draw and write everything."""
    FOLDER.mkdir(exist_ok=True)
    pages = {env_id: page_of(env_id) for env_id in list_envs()}
    for env_id, page in pages.items():
        take(page, FOLDER / f"{stem(env_id)}.png")
    PAGE.write_text(gallery(pages), encoding="utf-8")


if __name__ == "__main__":
    main()
