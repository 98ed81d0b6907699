"""TensorBoard, Trackio, Weights & Biases and MLflow: how a run is opened there, and its tables.

transformers' callbacks send the numbers of each log entry. Here a run is opened before they would
open one, so that it has a name of its own, goes on where it was, and stays offline.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import TensorBoardCallback

COLUMNS = ("update", "task", "episode", "agent", "turn", "said", "reward", "terms", "return")
"""Of a table of episodes, one row per action; `return` is the team's of the whole episode."""
EPISODES = "episodes"
TENSORBOARD = "tensorboard"
"""The folder of event files, in that of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A training as trackers know it.

    Attributes:
        name: of the run there, which no other run has.
        project: what trackers file runs under.
        folder: of the run.
        step: of the optimiser that it goes on from; 0 where it begins.
        callbacks: transformers' of this training.
        memory: what `trackers.json` holds; a tracker may add to it.
    """

    name: str
    project: str
    folder: Path
    step: int
    callbacks: Sequence[Any]
    memory: dict[str, Any]


class Tracker:
    """One tracker: its run is opened before transformers' callback would, and tables are added."""

    def __init__(self, run: Tracked) -> None:
        self.run = run

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The run there, as long as the block runs."""
        yield

    def show(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Add a table of episodes."""


class TensorBoard(Tracker):
    """Event files in `tensorboard/` of the run's folder, or in one of its own where variables say.

    A table is Markdown text.
    """

    @contextmanager
    def opened(self) -> Iterator[None]:
        """One folder for a run and what goes on from it; later entries of a checkpoint go."""
        from torch.utils.tensorboard import SummaryWriter

        shared = os.environ.get("TENSORBOARD_LOGGING_DIR")
        place = Path(shared).expanduser() / self.run.name if shared else None
        purge = self.run.step + 1 if self.run.step else None
        self.writer = SummaryWriter(place or self.run.folder / TENSORBOARD, purge_step=purge)
        for callback in self.run.callbacks:
            if isinstance(callback, TensorBoardCallback):
                callback.tb_writer = self.writer
        with self.writer:
            yield

    def show(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """As text: code spans keep what a model wrote from being Markdown."""
        lines = [COLUMNS, ["---"] * len(COLUMNS)]
        lines += [[_span(row[name]) for name in COLUMNS] for row in rows]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        self.writer.add_text(EPISODES, text, step)


def _span(value: Any) -> str:
    """A cell of a Markdown table that shows a text as it is, on one line."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if not isinstance(value, str):
        return text
    shown = json.dumps(text, ensure_ascii=False)[1:-1].replace("`", "\u02cb").replace("|", "\u2502")
    return f"`` {shown} ``" if shown else ""


class Trackio(Tracker):
    """A SQLite database on this machine; the callback opens the run by its name."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """What a training that fails has logged is written, too."""
        from trackio import context_vars, finish

        try:
            yield
        finally:
            if context_vars.current_run.get() is not None:
                finish()

    def show(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """A Trackio table."""
        import trackio

        table = trackio.Table(data=[dict(row) for row in rows])  # type: ignore[arg-type]
        trackio.log({EPISODES: table, "train/global_step": step})


class WandB(Tracker):
    """A folder `wandb/` in the run's, which `wandb sync` sends; sent at once with WANDB_MODE."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """A run of the user's own, begun before, is used as it is."""
        import wandb

        if wandb.run is not None:
            yield
            return
        project = os.environ.get("WANDB_PROJECT", self.run.project)
        # Machine, command line and checkout are nobody's business; numbers and settings are sent.
        private = wandb.Settings(host="", disable_git=True, x_disable_meta=True, console="off")
        folder = os.environ.get("WANDB_DIR", str(self.run.folder))
        try:
            run = wandb.init(
                project=project,
                name=self.run.name,
                id=self.run.name,
                resume="allow",
                dir=folder,
                settings=private,
            )
        except wandb.Error as error:
            mode = os.environ.get("WANDB_MODE")
            hint = "" if mode == "offline" else "; with WANDB_MODE=offline it asks nobody"
            raise ValueError(f"report_to='wandb': {error}{hint}") from error
        with run:
            yield

    def show(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """A W&B table."""
        import wandb

        table = wandb.Table(list(COLUMNS), [[row[name] for name in COLUMNS] for row in rows])
        wandb.log({EPISODES: table, "train/global_step": step})


class MLflow(Tracker):
    """MLflow's own store, `mlflow.db` where the command runs unless MLFLOW_TRACKING_URI says."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """A run of the user's own, begun before, is used as it is."""
        import mlflow  # type: ignore[import-not-found]

        if mlflow.active_run() is not None:
            yield
            return
        mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", self.run.project))
        known = self.run.memory.get("mlflow")
        with mlflow.start_run(run_id=known, run_name=None if known else self.run.name) as active:
            self.run.memory["mlflow"] = active.info.run_id
            yield

    def show(self, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """A JSON artifact that grows."""
        import mlflow  # type: ignore[import-not-found]

        columns = {name: [row[name] for row in rows] for name in COLUMNS}
        mlflow.log_table(columns, artifact_file=f"{EPISODES}.json")


TRACKERS: Mapping[str, type[Tracker]] = {
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": WandB,
}
