"""Why a training does not improve: likely causes, each with evidence and a remedy, from its log.

Pure functions of the entries that a training logs, one per update or per several. They speak where
the log holds evidence of a known cause and the run neither improves nor has solved its tasks.
Silence says that none of these causes was seen, no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from llm_marl_envs.files.json_files import finite
from llm_marl_envs.measure.numbers.estimates import (
    FEWEST_ENTRIES,
    correlation_of,
    series_interval,
)
from llm_marl_envs.measure.numbers.format import number, percent

Entry = Mapping[str, Any]

COSINE = "/grad_cosine"
"""How the log's names of it end; what stands before is the policy's."""
NOT_POLICIES = ("reward_terms/", "added_terms/", "algorithm/")
"""What stands before names that others choose, such as a reward term called "cut"."""
LEAST_UPDATES = 20
"""Of a window, and of a run that is judged at all. The alarm of flat rewards waits as long."""
LEAST_ENTRIES = FEWEST_ENTRIES
"""Of a window: where several updates are one entry."""
NEARLY_ALL = 0.9
"""A share that counts as all: at most one group, episode or action in ten is otherwise."""
SOLVED = 0.95
"""Success from which on nobody asks why it does not improve."""
ONE_TEXT = 0.1
"""Nats per action below which a policy says one thing: as much as a choice at 98 to 2."""
NO_DIRECTION = 0.1
"""Cosine of gradients with Adam's mean of those before (0.9: as of 19 of them) below which they are
noise. Where a share s of a gradient's squared length is signal it is s / sqrt(s + (1 - s) / 19):
0.1 where s is 0.03. The demo, which learns, has 0.15 to 0.24 in its first 17 updates."""
CLEAR = 0.3
"""Cosine from which on gradients have a direction: s is 0.12."""
LEANING = 0.5
"""Share of its entropy below which a policy has chosen something since the run began."""
UNMOVED = 0.02
"""Relative change of the entropy that is none."""
LEGAL_LOST = 0.2
"""Loss of the share of actions in the form that was asked for which is a collapse, not noise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A likely cause.

    Attributes:
        cause: its name, for programs.
        meaning: what is wrong, a sentence.
        evidence: what in the log says so, a sentence.
        remedy: what to try, a sentence.
    """

    cause: str
    meaning: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.meaning} {self.evidence} {self.remedy}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some entries of a log that follow each other."""

    entries: Sequence[Entry]

    def values(self, name: str) -> list[float]:
        """What was logged under a name; finite numbers only."""
        return [float(entry[name]) for entry in self.entries if finite(entry.get(name))]

    def mean(self, name: str) -> float | None:
        """Their mean; None without any."""
        return fmean(values) if (values := self.values(name)) else None

    def share(self, name: str) -> float:
        """Their mean; 0 without any."""
        return self.mean(name) or 0.0

    def ending(self, end: str) -> list[str]:
        """Names with an end, such as "/idle", in order."""
        names = {name for entry in self.entries for name in entry if name.endswith(end)}
        return sorted(name for name in names if not name.startswith(NOT_POLICIES))

    def bounds(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of the mean, as of a series; None for too few values."""
        return series_interval(self.values(name))


@dataclass(frozen=True, slots=True)
class History:
    """A training in three stretches: all of it, its beginning and its end.

    The latter are at least `LEAST_UPDATES` long, or a quarter of a long run, and never overlap.
    """

    whole: Stretch
    first: Stretch
    last: Stretch

    @property
    def improved(self) -> bool:
        """Whether return or success rose by more than chance would."""
        return any(_rose(self.first, self.last, name) for name in ("reward", "success"))

    @property
    def solved(self) -> bool:
        """Whether nearly all episodes of the end solved their tasks, where anybody says so."""
        return self.last.share("success") >= SOLVED

    @property
    def flat(self) -> bool:
        """Whether the groups of the end have nothing to compare."""
        return self.last.share("frac_reward_zero_std") >= NEARLY_ALL

    @property
    def stuck(self) -> bool:
        """Whether returns differ and do not rise; of a constant sum they neither do nor could."""
        varied = self.last.share("reward_std") > 0
        return varied and not (self.flat or self.improved or self.solved)


def diagnose(log: Sequence[Entry]) -> tuple[Finding, ...]:
    """Likely causes why a training does not improve; none where it improves or nothing is seen.

    Args:
        log: what the trainer logged, in order (`log.jsonl`, `state.log_history`); entries that are
            of no update, such as evaluations, are passed over. Runs of fewer than 20 updates, or of
            fewer than 8 entries, are not judged.
    """
    history = _history(log)
    if history is None:
        return ()
    findings = [check(history) for check in CHECKS]
    return tuple(finding for finding in findings if finding is not None)


def _history(log: Sequence[Entry]) -> History | None:
    entries = [entry for entry in log if finite(entry.get("step")) and "reward_std" in entry]
    # A resumed log is in order; the updates before its first entry belong to that.
    updates = _update(entries[-1]) if entries else 0
    if updates < LEAST_UPDATES or len(entries) < 2 * LEAST_ENTRIES:
        return None
    each = max((_update(b) - _update(a) for a, b in pairwise(entries)), default=1) or 1
    wide = max(LEAST_UPDATES, updates // 4) // each
    wide = min(max(wide, LEAST_ENTRIES), len(entries) // 2)
    return History(Stretch(entries), Stretch(entries[:wide]), Stretch(entries[-wide:]))


def _rose(first: Stretch, last: Stretch, name: str) -> bool:
    """Whether the mean rose by more than both intervals together allow.

    How much entries are like the ones before is taken of both stretches: either alone is short.
    """
    values = [stretch.values(name) for stretch in (first, last)]
    if min(map(len, values)) < FEWEST_ENTRIES:
        return False
    like = correlation_of(*values)
    old, new = (series_interval(some, like) for some in values)
    assert old is not None
    assert new is not None
    doubt = math.hypot(old[1] - old[0], new[1] - new[0]) / 2
    return last.share(name) - first.share(name) > doubt


# -- causes ---------------------------------------------------------------------------------------
def _no_rate(run: History) -> Finding | None:
    rates = run.whole.values("learning_rate")
    if not rates or max(rates) > 0:
        return None
    return Finding(
        "no_rate",
        "The weights were never changed.",
        f"The learning rate was 0 in all {len(rates)} entries of the log.",
        "Set learning_rate above 0, and look at its schedule and warm-up.",
    )


def _saturated(run: History) -> Finding | None:
    began = run.first.share("frac_reward_zero_std") >= NEARLY_ALL
    if not (run.flat and run.solved and began):
        return None
    return Finding(
        "saturated",
        "There was nothing to learn: the tasks were solved from the beginning.",
        f"{percent(run.first.share('success'))} of the first episodes solved their tasks.",
        "Take harder tasks, or end here.",
    )


def _one_text(run: History) -> Finding | None:
    nats = _nats(run.last)
    if not run.flat or run.solved or nats is None or nats >= ONE_TEXT:
        return None
    return Finding(
        "one_text",
        "The policies say one text each, so they explore no more, and the tasks are not solved.",
        f"{_flatness(run)}, and an action holds {number(nats)} nats of choice.",
        "Go back to an earlier checkpoint or start, and lower the learning rate, or set beta.",
    )


def _out_of_reach(run: History) -> Finding | None:
    seen = run.whole.values("success")
    never = bool(seen) and max(seen) == 0
    if not never or run.improved or _one_text(run):
        return None
    varied = "returns are alike" if run.flat else "returns vary, and do not rise"
    return Finding(
        "out_of_reach",
        "The reward is out of reach: nobody has ever seen what is to be learned.",
        f"No episode of {_update(run.whole.entries[-1])} updates solved its task, and {varied}.",
        "Start from a model that succeeds now and then: warm-start it, take easier tasks, or pay "
        "for parts of a solution.",
    )


def _paid_alike(run: History) -> Finding | None:
    has_success = "success" in run.last.entries[-1]
    # Where nobody says what is solved, flat returns after a rise may well be the best.
    if not run.flat or run.solved or (run.improved and not has_success):
        return None
    if _out_of_reach(run) or _one_text(run):
        return None
    return Finding(
        "paid_alike",
        "Nothing is learned, because the episodes of a group are paid alike.",
        f"{_flatness(run)}.",
        "Look at the transcripts: take easier or harder tasks, more generations or a higher "
        "temperature; where seats divide a constant sum, credit='own'.",
    )


def _cut(run: History) -> Finding | None:
    if run.improved or run.solved:
        return None
    agents = [n for n in run.last.ending("/cut") if run.last.share(n) >= NEARLY_ALL]
    if agents:
        names = ", ".join(name.removesuffix("/cut") for name in agents)
        return Finding(
            "cut",
            "Actions are cut before they end.",
            f"At least {percent(NEARLY_ALL)} of the actions of {names} ended at the token limit.",
            "Raise max_completion_length, or teach the model to end: a warm start does.",
        )
    if run.last.share("truncated") < NEARLY_ALL:
        return None
    return Finding(
        "cut",
        "Episodes are cut before they end.",
        f"{percent(run.last.share('truncated'))} of them ended at a limit of the environment.",
        "Give the environment more turns, or shorter tasks.",
    )


def _idle(run: History) -> Finding | None:
    names = run.last.ending("/idle")
    if not names or run.flat:
        return None
    # Of each entry the policy that was idle least: where they learn in turn, most are.
    still = fmean(min(entry.get(name, 1.0) for name in names) for entry in run.last.entries)
    if still < NEARLY_ALL:
        return None
    return Finding(
        "idle",
        "Returns vary, but everything that is trained on weighs nothing.",
        f"In {percent(still)} of the last updates no policy was moved.",
        "Look at what leaves episodes out: schedules (difficulty), mask_truncated_completions, and "
        "the algorithm's own weights.",
    )


def _no_direction(run: History) -> Finding | None:
    """Every policy's gradient was noise throughout, and none has begun to choose.

    At a point that is symmetric between conventions the expected gradient of each policy is zero,
    although what they say together is paid differently: so nothing but noise is left. A signal that
    is too weak to be seen looks the same. A learning rate that is too small does not.
    """
    bounds = [run.whole.bounds(name) for name in run.whole.ending(COSINE)]
    noise = [ends is not None and ends[0] <= 0 and ends[1] < NO_DIRECTION for ends in bounds]
    old, new = run.first.mean("entropy"), run.last.mean("entropy")
    chosen = old is not None and new is not None and new < LEANING * old
    if not run.stuck or not noise or not all(noise) or chosen:
        return None
    return Finding(
        "no_direction",
        "Returns vary, but no policy sees how to do better on its own: as between conventions of "
        "which each is as good as the others, as long as nobody leans to one.",
        f"The gradients have no direction in common (mean cosine {_means(run.whole)}), and the "
        "policies are as undecided as they were.",
        "Make one seat lean: train the others beside a scripted or trained partner first "
        "(partners), or warm-start on one convention; if nothing here is symmetric, the gradient "
        "is lost in noise: raise num_generations or tasks_per_update.",
    )


def _no_effect(run: History) -> Finding | None:
    cosines = [run.last.bounds(name) for name in run.last.ending(COSINE)]
    clear = any(ends is not None and ends[0] > CLEAR for ends in cosines)
    old, new = run.first.mean("entropy"), run.last.mean("entropy")
    moved = old is None or new is None or abs(new - old) > UNMOVED * abs(old)
    if not (run.stuck and clear) or moved or _no_rate(run):
        return None
    return Finding(
        "no_effect",
        "The gradients have a direction, and the steps are too small to follow it.",
        f"The mean cosine is {_means(run.last)}, and neither returns nor entropy moved.",
        "Raise learning_rate; with weights in bf16 small steps are rounded away: train adapters, "
        "or in float32.",
    )


def _form_lost(run: History) -> Finding | None:
    wide, entries = len(run.last.entries), run.whole.entries
    earlier = [
        Stretch(entries[i : i + wide]).share("format_success")
        for i in range(0, len(entries) - wide, wide)
    ]
    now = run.last.mean("format_success")
    if now is None or max(earlier, default=0.0) - now < LEGAL_LOST:
        return None
    return Finding(
        "form_lost",
        "The policies have left the form that the environment can read.",
        f"{percent(now)} of the last episodes had it throughout, {percent(max(earlier))} before.",
        "Go back to an earlier checkpoint, and lower the learning rate or set beta.",
    )


CHECKS: tuple[Callable[[History], Finding | None], ...] = (
    _no_rate,
    _saturated,
    _one_text,
    _out_of_reach,
    _paid_alike,
    _cut,
    _idle,
    _no_direction,
    _no_effect,
    _form_lost,
)


# -- words ----------------------------------------------------------------------------------------
def _nats(stretch: Stretch) -> float | None:
    """Nats of choice in an action; None where nobody counted."""
    entropy, tokens = stretch.mean("entropy"), [*map(stretch.share, stretch.ending("/tokens"))]
    return entropy * fmean(tokens) if entropy is not None and tokens else None


def _flatness(run: History) -> str:
    share = percent(run.last.share("frac_reward_zero_std"))
    return f"In {share} of the last groups all returns were equal"


def _update(entry: Entry) -> int:
    """The update of an entry. It may have several steps; older logs count these alone."""
    return int(entry.get("cost/updates", entry["step"]))


def _means(stretch: Stretch) -> str:
    names = stretch.ending(COSINE)
    return ", ".join(f"{n.removesuffix(COSINE)} {number(stretch.mean(n))}" for n in names)
