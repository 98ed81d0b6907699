"""Folders of results for reports, texts that want out of a page, and a page's tags and text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from support.pairings import experts, stage
from support.toys import SameCase

from llm_marl_envs.core.records import (
    Episode,
    Response,
    StopReason,
    Turn,
    episode_to_dict,
    write_jsonl,
)
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.measure.studies.cross_play import cross_play
from llm_marl_envs.measure.studies.cross_play_files import write_cross_play
from llm_marl_envs.measure.studies.zero_shot import zero_shot
from llm_marl_envs.report.page import TEMPLATES

HOSTILE = (
    "</script><script>window.pwned = 1</script>",
    '<img src="https://example.invalid/x.png" onerror="window.pwned = 1">',
    "<svg onload=window.pwned=1><style>body{display:none}</style></svg>",
    '" onmouseover="window.pwned=1" x="',
    "</pre></details></main><iframe src=javascript:window.pwned=1></iframe>",
    "<!-- <plaintext> ]]> &lt;b&gt; &amp; <link rel=stylesheet href=//example.invalid/a.css>",
    "NUL \x00 escape \x1b[31m lone \ud800 turned \u202edlrow\u2066 return \r.",
    "</title></style><meta http-equiv=refresh content='0;url=https://example.invalid/'>",
)


def turn(agent: str, text: str, reward: float, index: int = 0, **changes: Any) -> Turn:
    told = (Message("system", "Say your word."), Message("user", f"You are {agent}."))
    given = {"reward_terms": {"words": reward}, "messages": told, **changes}
    return Turn(agent=agent, index=index, response=Response(text=text), reward=reward, **given)


def episode(task: str, reward: float, text: str = "a word", **changes: Any) -> Episode:
    """Two agents, one turn each, paid alike; solved if the reward is 1."""
    given = {
        "env_id": "word_pair-v0",
        "env_kwargs": {},
        "task_id": task,
        "seed": 0,
        "agents": ("left_0", "right_0"),
        "turns": (turn("left_0", text, reward), turn("right_0", text, reward)),
        "stop_reason": StopReason.TERMINATED,
        "success": reward == 1,
    }
    return Episode(**{**given, **changes})


def with_tokens(one: Episode, advantage: float, texts: tuple[str, ...]) -> dict[str, Any]:
    """A line of a training transcript."""
    data = episode_to_dict(one)
    data["turns"][0]["tokens"] = {
        "texts": list(texts),
        "advantages": [advantage] * len(texts),
        "logprobs": [-0.5] * len(texts),
    }
    return data


def lines(path: Path, values: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def a_run(folder: Path, *, text: str = "a word", name: str = "train/388") -> Path:
    """A folder like the demo's, small: 4 tasks before and after, 20 updates, one group."""
    before = [episode(f"{name}/{i}", reward, text) for i, reward in enumerate((0, 0, 1, 0.5))]
    after = [episode(f"{name}/{i}", reward, text) for i, reward in enumerate((1, 1, 0, 0.5))]
    write_jsonl(folder / "transcripts_before.jsonl", before)
    write_jsonl(folder / "transcripts_after.jsonl", after)
    log = [
        {"step": i, "reward": i / 20, "success": i / 20, "reward_terms/words": i / 20, text: 1.0}
        for i in range(1, 21)
    ]
    lines(folder / "train" / "log.jsonl", log)
    group = [
        with_tokens(e, a, (text, text, "")) for e, a in zip(after[:2], (0.5, -0.5), strict=True)
    ]
    lines(folder / "train" / "transcripts" / "update-000000.jsonl", group)
    summary = {
        "before": {"n": 4, "ci95": [0.0, 1.0], text: 1},
        "after": {"n": 4, text: text},
        "env": text,
        "seed": 0,
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    cross = {"teams": [text, "other"], "matrix": [[1.0, 0.25], [None, 0.5]]}
    (folder / "cross_play.json").write_text(json.dumps(cross))
    return folder


VOID = ("meta", "link", "input")
"""Tags that hold nothing, of those that pages use."""


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of the style sheet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag  # well nested, so text stays where it was put

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and not data.isspace():  # between elements
            self.text += data


def a_cross_play(path: Path) -> None:
    """A measured one: two scripted teams, two seats, partners of each convention."""
    teams = {"loud": experts("upper"), "quiet": experts("lower")}
    partners = zero_shot(stage(SameCase, n_tasks=30), teams)
    write_cross_play(path, cross_play(stage(SameCase, n_tasks=30), teams), partners)


def macro(template: str, name: str, *values: object) -> str:
    """What a macro of a template makes of some values."""
    return str(getattr(TEMPLATES.get_template(template).module, name)(*values))
