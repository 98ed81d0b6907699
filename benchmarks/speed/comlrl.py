"""(b) Updates against CoMLRL's MAGRPO: same model, prompts, reward, group and lengths.

    python -m benchmarks.speed.comlrl [--repetitions 5]

CoMLRL pins what this library needs otherwise, so both run in its environment (runs/bridges/comlrl,
made on first use), in one process and by turns. What CoMLRL trains is one full model per agent. It
samples the group of one task and one agent at once, and scores one row at a time; its
`rollout_buffer_size` is as many tasks as an update of ours has. "Limit" is what the bare limit
(`limit.py`) allows: one `generate`, one forward and one backward pass of all rows.

The second table has real prompts: bundled posts of `coop_writing_tldr-v0`, one task, a model of 17
million parameters, and answers of so many tokens that a mean prompt is once to eight times as long.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from statistics import mean, median
from typing import Any

from benchmarks.speed import toy
from benchmarks.speed.limit import GROUP, bare
from benchmarks.speed.record import REPETITIONS, ROOT, Row, keep, ratio
from benchmarks.speed.sharing import SIZES
from llm_marl_envs import make
from llm_marl_envs.bridges.comlrl import for_comlrl
from trainers.weights.chat import ChatTemplate
from trainers.weights.tiny import TinySettings

CELLS = (
    ("separate", (1, 64, 1000)),
    ("separate", (4, 64, 1000)),
    ("separate", (1, 128, 8000)),
)
"""Our weights; tasks of an update, new tokens, vocabulary."""
RATIOS = (1, 2, 4, 8)
"""Of real prompts: mean prompt to answer."""


def enter() -> None:
    """Go on in the environment that has CoMLRL, unless this is it."""
    if find_spec("comlrl") is not None:
        return
    bridges = runpy.run_path(str(ROOT / "tests" / "bridges" / "run.py"), run_name="bridges")
    python = bridges["environment"]("comlrl", bridges["LIBRARIES"]["comlrl"]["requires"])
    module = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "TQDM_DISABLE": "1"}
    os.execve(python, [str(python), "-W", "ignore", "-m", module, *sys.argv[1:]], environment)


def theirs(
    models: list[Any], tokenizer: Any, env: Any, tasks: int, **settings: Any
) -> Callable[[], None]:
    """CoMLRL trains on so many tasks, as a job; `settings` are of its config."""
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer

    trainer = MAGRPOTrainer(
        agents=models,
        tokenizer=tokenizer,
        args=MAGRPOConfig(
            **{
                "num_train_epochs": 1,
                "num_generations": GROUP,
                "num_turns": 1,
                "temperature": 1.0,
                "top_p": 1.0,
                "top_k": 0,
                "early_termination_threshold": None,
                "eval_interval": 0,
                **settings,
            }
        ),
        **for_comlrl(env, tokenizer, tasks),
    )
    return trainer.train


def cell(mode: str, size: tuple[int, int, int], repetitions: int) -> Row:
    """One row of the table."""
    tasks, length, vocabulary = size
    sizes: TinySettings = toy.SIZES.changed(vocab_size=vocabulary)
    made = [toy.model_and_tokenizer(sizes) for _ in range(3)]
    tokenizer = made[0][1]
    jobs = {
        "comlrl": theirs(
            [model for model, _ in made[:2]],
            tokenizer,
            toy.Talk(),
            tasks,
            max_new_tokens=length,
            rollout_buffer_size=tasks,
            agent_learning_rate=1e-4,
        ),
        "limit": bare(made[2][0], tokenizer, 2 * GROUP * tasks, length),
    }
    seconds = toy.measured(
        mode,
        jobs,
        repetitions,
        sizes=sizes,
        tasks_per_update=tasks,
        max_completion_length=length,
    )
    return {
        "tasks": tasks,
        "tokens": length,
        "vocabulary": vocabulary,
        "our weights": mode,
        "CoMLRL, s": median(seconds["comlrl"]),
        "ours, s": median(seconds["update"]),
        "times faster": ratio(seconds["comlrl"], seconds["update"]),
        "limit": ratio(seconds["comlrl"], seconds["limit"]),
        "raw": seconds,
    }


def posts() -> Any:
    """The environment of real prompts."""
    return make("coop_writing_tldr-v0", tasks="bundled:writing_posts", reward="paper", split="all")


def of_posts(times: float, repetitions: int) -> Row:
    """One row of the second table: a mean prompt is `times` as long as an answer."""
    env = posts()
    chats = [list(env.first_words(task).values()) for task in env.source]
    texts = ["\n".join(one.content for one in chat) for seats in chats for chat in seats]
    made = [toy.model_and_tokenizer(SIZES, texts) for _ in range(2)]
    tokenizer = made[0][1]
    prompts = [len(ChatTemplate(tokenizer).opening(chat)) for seats in chats for chat in seats]
    length = round(mean(prompts) / times)
    jobs = {
        "comlrl": theirs(
            [model for model, _ in made],
            tokenizer,
            env,
            1,
            max_new_tokens=length,
            rollout_buffer_size=1,
            agent_learning_rate=1e-4,
        )
    }
    settings: dict[str, Any] = {
        "sizes": SIZES,
        "texts": texts,
        "env": posts,
        "max_completion_length": length,
    }
    seconds = toy.measured("separate", jobs, repetitions, **settings)
    whole = toy.measured("separate", {}, repetitions, share_prompts=False, **settings)["update"]
    return {
        "prompt : answer": times,
        "tokens of a prompt, mean": round(mean(prompts)),
        "of an answer": length,
        "CoMLRL, s": median(seconds["comlrl"]),
        "ours, s": median(seconds["update"]),
        "times faster": ratio(seconds["comlrl"], seconds["update"]),
        "without sharing": ratio(seconds["comlrl"], whole),
        "raw": {**seconds, "without": whole},
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--posts", action="store_true", help="the second table alone")
    options = parser.parse_args()
    enter()
    if not options.posts:
        keep("comlrl", [cell(mode, size, options.repetitions) for mode, size in CELLS])
    keep("comlrl_posts", [of_posts(times, options.repetitions) for times in RATIOS])


if __name__ == "__main__":
    main()
