"""What a person sees and does in a run: progress, an alarm, and Ctrl-C that keeps the work."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import ProgressCallback, TrainerCallback


class TeamProgress(ProgressCallback):
    """One bar with ETA, reward and success, instead of a dictionary per step."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Show the newest reward and success beside the bar."""
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {name: logs[name] for name in ("reward", "success") if name in logs}
            self.training_bar.set_postfix({name: f"{value:.3f}" for name, value in shown.items()})


class SaveOnInterrupt(TrainerCallback):
    """The first Ctrl-C ends the run with a checkpoint after the current update.

    A second one interrupts at once, as usual.

    Args:
        anyone: whether the flag is set on any process; all must stop after the same update.
    """

    def __init__(self, anyone: Callable[[bool], bool]) -> None:
        self.asked = False
        self.anyone = anyone

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch SIGINT while the block runs; does nothing outside of the main thread."""
        self.asked = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, self._ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _ask(self, signum: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("\nCtrl-C: saving a checkpoint after this update (again: stop at once)", flush=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Turn the request into the trainer's own flags."""
        if self.anyone(self.asked):
            control.should_save = True
            control.should_training_stop = True
        return control


class FlatRewards(TrainerCallback):
    """Warns when nothing can be learned: no group's rewards have varied for many updates.

    Advantages are differences inside a group, so such updates leave the weights as they are. The
    warning comes once for every stretch of `patience` updates.

    Args:
        patience: updates in a row with `frac_reward_zero_std` at 1.
    """

    def __init__(self, patience: int = 20) -> None:
        self.patience = patience
        self.flat = 0
        self._seen = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count from here on; a resumed run begins later than 0."""
        self.flat, self._seen = 0, state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Count updates whose groups were all flat; a log is the mean since the one before."""
        share = (logs or {}).get("frac_reward_zero_std")
        if share is None:
            return
        updates, self._seen = state.global_step - self._seen, state.global_step
        before, self.flat = self.flat, self.flat + updates if share == 1 else 0
        if self.flat // self.patience > before // self.patience and state.is_world_process_zero:
            warnings.warn(
                f"rewards inside groups have not varied for {self.flat} updates: nothing is being "
                "learned; look at transcripts, and try easier tasks, a higher temperature, more "
                "generations or a model that sometimes succeeds; where seats divide a constant "
                "sum, credit='own'",
                stacklevel=2,
            )
