"""What a person sees and does in a run: progress, an alarm, and Ctrl-C that keeps the work."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import ProgressCallback, TrainerCallback
from transformers.trainer_callback import DefaultFlowCallback

from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.measure.numbers.diagnosis import diagnose
from llm_marl_envs.measure.progress import counter
from trainers.running.clock import REST

SHOWN = ("sampling", "environments", "update")
"""Parts of an update whose seconds stand beside the bar."""


class TeamProgress(ProgressCallback):
    """One bar with ETA, reward and success, instead of a dictionary per step.

    Within an update it says which part runs: `now=sampling`, `now=update 3`, the third pass.

    `known=False`: nobody knows the number of updates, so there is no ETA.
    """

    def __init__(self, *, known: bool = True) -> None:
        super().__init__()
        self.known = known
        self.shown: dict[str, str] = {}
        self.passes = 0

    def now(self, part: str) -> None:
        """Say that this part of an update runs."""
        if self.training_bar is not None:
            label = f"{part} {self.passes + 1}" if part == REST else part
            self.training_bar.set_postfix({"now": label, **self.shown})

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An update begins."""
        self.passes = 0

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A pass over a part of its rows is over."""
        self.passes += 1
        self.now(REST)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the bar."""
        if state.is_world_process_zero:
            self.training_bar = counter(state.max_steps if self.known else None, unit="update")
        self.current_step = 0

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Show the newest reward and success beside the bar, and where the time went."""
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {name: f"{logs[name]:.3f}" for name in ("reward", "success") if name in logs}
            parts = {name: logs.get(f"time/{name}") for name in SHOWN}
            shown |= {name: f"{value:.1f}s" for name, value in parts.items() if value is not None}
            if shown:  # the last entry is a summary
                self.shown = shown
                self.training_bar.set_postfix(shown)


SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEATED_SECONDS = 2.0
LAUNCHED = "LLM_MARL_LAUNCHED"
"""Set in processes whose launcher passes a signal on to them that the terminal sent them, too."""


class SaveOnInterrupt(TrainerCallback):
    """The first Ctrl-C, or SIGTERM, ends the run with a checkpoint after the current update.

    A second one interrupts at once, as usual. `anyone` says whether the flag is set on any process:
    all must stop after the same update.

    Attributes:
        signum: the signal that this process received, None without one.
        stopping: whether this update is the last, because of a signal to any process.
    """

    def __init__(self, anyone: Callable[[bool], bool]) -> None:
        self.signum: int | None = None
        self.stopping = False
        self.anyone = anyone
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch the signals while the block runs; does nothing outside of the main thread."""
        self.signum, self.stopping = None, False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self._ask) for one in SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _ask(self, signum: int, frame: Any) -> None:
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._since = signum, now
            name = "Ctrl-C" if signum == signal.SIGINT else "SIGTERM"
            # Not print: it cannot be entered again where the signal came inside of it.
            said = f"\n{name}: saving a checkpoint after this update (again: stop at once)\n"
            os.write(2, said.encode())
        elif now - self._since > REPEATED_SECONDS or not _launched():
            raise Stopped(signum=signum)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Turn the request into the trainer's own flags."""
        if self.anyone(self.signum is not None):
            self.stopping = True
            control.should_save = True
            control.should_training_stop = True
        return control


def _launched() -> bool:
    """Whether the terminal's signal arrives twice: from it, and from what started this process."""
    return any(name in os.environ for name in (LAUNCHED, "TORCHELASTIC_RUN_ID"))


class AfterStep(TrainerCallback):
    """Calls a function after each step of the optimiser, before anything is logged."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Call it."""
        self.act()
        return control


class TokenBudget(TrainerCallback):
    """Ends a run whose tokens are `spent` as transformers does: it measures and saves first."""

    def __init__(self, spent: Callable[[], bool]) -> None:
        self.spent = spent

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Say that this was the last update."""
        if not self.spent():
            return control
        state.max_steps = state.global_step
        return DefaultFlowCallback().on_step_end(args, state, control)


class FlatRewards(TrainerCallback):
    """Warns when nothing can be learned: no group's rewards have varied for many updates.

    Advantages are differences inside a group, so such updates leave the weights as they are. The
    warning comes once for every `patience` updates in a row with `frac_reward_zero_std` at 1.

    Args:
        patience: updates until the warning.
        steps: of the optimizer in one update.
    """

    def __init__(self, patience: int = 20, steps: int = 1) -> None:
        self.patience, self.steps = patience, steps
        self.flat = 0
        self._seen = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count from here on; a resumed run begins later than 0."""
        self.flat, self._seen = 0, self._begun(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Count updates whose groups were all flat; a log is the mean since the one before."""
        share = (logs or {}).get("frac_reward_zero_std")
        if share is None:
            return
        begun = self._begun(state)
        updates, self._seen = begun - self._seen, begun
        before, self.flat = self.flat, self.flat + updates if share == 1 else 0
        if self.flat // self.patience > before // self.patience and state.is_world_process_zero:
            warnings.warn(
                f"rewards inside groups have not varied for {self.flat} updates: nothing is being "
                "learned; look at transcripts, and try easier tasks, a higher temperature, more "
                "generations or a model that sometimes succeeds; where seats divide a constant "
                "sum, credit='own'",
                stacklevel=2,
            )

    def _begun(self, state: Any) -> int:
        """Updates that have begun; a rollout is logged with the first step after it."""
        return -(-state.global_step // self.steps)


class Diagnosis(TrainerCallback):
    """Says at the end of a training what the log tells of why it did not improve, if anything."""

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Print each likely cause."""
        if state.is_world_process_zero:
            for one in diagnose(state.log_history):
                print(f"diagnosis: {one}")
