"""`MAGRPOTrainer`: TRL's `GRPOTrainer` with a team of agents in any text PettingZoo environment.

TRL keeps the optimiser step, schedule, accumulation, loss, logging and the training loop. The seam
is `_prepare_inputs`: instead of generating from a dataset, episodes are rolled out, turned into
advantages and packed into micro-batches of one policy each. Beside it, `compute_loss` (a scale),
the optimiser's methods (`batch/optimizer.py`: steps per policy) and those that write and read
checkpoints (`running/checkpoints.py`) are overridden.
`tests/trainers/test_trl_seam.py` fails where an upgrade of TRL moves any of this.

With several processes each plays its share of the tasks, and every process judges all episodes, so
that advantages and metrics are those of one process that played them all.

Deviations from TRL:
1. One row holds all turns of one agent; advantages have shape (B, T), which TRL's loss accepts.
2. The gradient is clipped per policy, so that no agent's step depends on another's gradient.
3. A policy whose advantages are all zero in an update is not stepped at all: AdamW would move it by
   weight decay and momentum.
4. Sampling uses one seed per row (`engines/row_sampler.py`), so an update is a function
   of (seed, update).
5. Where another engine samples (`engines/`), its log-probs are compared with the trainer's before
   every step, and an engine that is not exact is corrected for by a ratio per token. TRL's default
   is one ratio per row, which here is all turns of an episode (`batch/drift.py`).
6. Entropy, KL and shares of clipped ratios are logged as means over own tokens. TRL logs the mean
   over micro-batches of their means, which depends on how tokens lie in them.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from peft import PeftConfig
from torch.utils.data import DataLoader
from transformers import ProgressCallback, TrainerState
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import TrainOutput
from trl.trainer.grpo_trainer import GRPOTrainer

from llm_marl_envs.core.records import EpisodeGroup
from llm_marl_envs.core.specs import env_arguments
from llm_marl_envs.play.registry import env_factory
from llm_marl_envs.play.rollout import REPEATS, Failures, appends
from llm_marl_envs.policies import Policy
from trainers.algorithms import AdvantageInputs, Algorithm, algorithm_name, make_algorithm
from trainers.batch.drift import (
    OLD,
    EngineDriftError,
    Limits,
    correction,
    differences,
    limits_of,
    logged,
    measured,
    of_first_pass,
    refusal,
)
from trainers.batch.identity import NEAR_ONE, LossForm, LostGradientError, Watch
from trainers.batch.log_probs import in_place
from trainers.batch.optimizer import clip_each, cosines, leave_idle, parameter_groups
from trainers.batch.packing import (
    PackPlan,
    Row,
    count_everywhere,
    micro_batches,
    not_finite_rows,
    pack_rows,
    plan_micro_batches,
    uncut,
)
from trainers.batch.shared_prompts import NOT_SHARDED, SharedPrompts, drops, why_whole
from trainers.config import NO_DEEPSPEED, NO_SHARDS, MAGRPOConfig
from trainers.engines.base import SamplingEngine
from trainers.engines.registry import make_engine
from trainers.experience.branching import most_turns
from trainers.experience.collect import (
    Collector,
    check_context,
    evaluation_episodes,
    not_finite,
)
from trainers.experience.players import Players
from trainers.experience.sequential import drawn_order, log_ratios, weigh
from trainers.experience.stage import Stage
from trainers.policies.token_policy import TokenPolicy
from trainers.recipes import label
from trainers.running import metrics
from trainers.running.callbacks import (
    AfterStep,
    Diagnosis,
    FlatRewards,
    SaveOnInterrupt,
    TeamProgress,
    TokenBudget,
)
from trainers.running.checkpoints import Checkpoints, all_finite, on_host
from trainers.running.clock import REST, Clock
from trainers.running.costs import Costs, update_costs
from trainers.running.failures import FailedEpisodes, FailureWindow
from trainers.running.folder import checkpoint_after, newest_checkpoint, step_of, transcript
from trainers.running.memory import bounded_by, peak_mib
from trainers.running.processes import Processes
from trainers.running.resume import Run, checkpoint_to_resume, decided
from trainers.running.same_run import (
    environments_of,
    origin,
    recorded_settings,
    sampled_by,
    settings_of,
    write_settings,
)
from trainers.running.transcripts import LogFile, write_group
from trainers.schedules.population import Members
from trainers.schedules.schedules import make_schedules
from trainers.trackers.asked import stay_home
from trainers.trackers.following import Trackers
from trainers.weights.adapter_checks import try_out
from trainers.weights.adapters import AdapterWeights
from trainers.weights.model_card import training_facts
from trainers.weights.sharding import keep_parts
from trainers.weights.team_files import Models, Tokenizers, build_team_model, save_team
from trainers.weights.team_model import SeparateWeights, TeamModel
from trainers.weights.team_module import fit_for_trl
from trainers.weights.template_limits import TODAY

# Log-probs of tokens that no agent sampled. TRL takes exponentials of differences before it masks
# them, and an improbable prompt token would make inf * 0: these keep both differences harmless.
NOT_OWN = {OLD: 0.0, "ref_per_token_logps": -1e4}


class MAGRPOTrainer(GRPOTrainer):
    """Train a team of language models with multi-agent GRPO.

    >>> trainer = MAGRPOTrainer("Qwen/Qwen2.5-Coder-0.5B-Instruct", "coop_coding-v0",
    ...                         MAGRPOConfig("runs/first"), peft_config=LoraConfig(r=16))
    >>> trainer.train()

    Args:
        model: a name or folder that `from_pretrained` takes, or a loaded model; with
            `weights="separate"` also policy -> one of these (policies have their agents' names
            unless `args.policies` groups them).
        env: a registered id, a function that makes the environment, or any PettingZoo environment
            with text observations and actions.
        args: the settings.
        peft_config: train LoRA (or other PEFT) adapters instead of the whole model; prompt tuning
            and its relatives are refused.
        processing_class: the tokenizer (or policy -> tokenizer), loaded from `model` where None.
        partners: agent -> policy, for seats that another policy plays (`args.frozen`: seats that
            play with the weights they began with).
        eval_env: like `env`, for evaluation during training (`eval_strategy`).
        callbacks: further callbacks of transformers.

    Raises:
        ValueError: something does not fit together; said before any work starts.
    """

    _tag_names: ClassVar[list[str]] = ["trl", "grpo", "magrpo", "llm-marl-envs"]
    _name = "MAGRPO"
    _paper: ClassVar[dict[str, str]] = {
        "title": "LLM Collaboration With Multi-Agent Reinforcement Learning",
        "id": "2508.04652",
    }
    args: MAGRPOConfig  # type: ignore[assignment]
    _learner: str | None = None
    """The policy of the present step of the optimiser; None: all of them."""
    _own: torch.Tensor | None = None
    """(B, T) which completion tokens of the present micro-batch its agent said."""
    _before: tuple[int, dict[str, Any]] = (-1, {})
    """The position at which the present update began, and what playing it has changed since."""
    _followed: Mapping[str, Any] | None = None
    """The micro-batch whose gradient is compared with its advantages; None: none is."""

    def __init__(
        self,
        model: Models,
        env: Any,
        args: MAGRPOConfig | None = None,
        *,
        peft_config: PeftConfig | None = None,
        processing_class: Tokenizers | None = None,
        partners: Mapping[str, Policy] | None = None,
        eval_env: Any = None,
        callbacks: list[Any] | None = None,
    ) -> None:
        args = copy.copy(args) if args is not None else MAGRPOConfig("magrpo")
        self._choose_seats(env, eval_env, partners, args)
        self._make_team(model, args, peft_config, processing_class)
        self._make_experience(args)
        self.plan = self._make_plan(args)
        args.accumulate(self.plan.total)
        placeholder = Dataset.from_dict({"prompt": [""]})  # TRL's loop wants one; ours drives it
        first = self.team.policies[0]
        stay_home(args.report_to or ())
        beta, args.beta = args.beta, 0.0  # TRL would build one reference; ours are per policy
        super().__init__(
            model=self.team.model_of(first),
            reward_funcs=[_rewards_come_from_the_environment],
            args=args,
            train_dataset=placeholder,
            eval_dataset=placeholder if eval_env is not None else None,
            processing_class=self.team.tokenizers[first],
            callbacks=callbacks,
        )
        self.beta = self.args.beta = beta
        self.costs, self._counted_at = Costs(), time.perf_counter()
        self.clock, self._tokens_read, self._sampled = Clock(), np.zeros(2), 0
        self._watch, self._own_tokens = Watch(), list[float]()
        self._gather()
        self._settle()

    def _send_telemetry(self) -> None:
        """Nothing: TRL would tell its makers of each training, and nobody asked for that."""

    # -- set-up, in this order ---------------------------------------------------------------------
    def _choose_seats(
        self, env: Any, eval_env: Any, partners: Mapping[str, Policy] | None, args: MAGRPOConfig
    ) -> None:
        """Which environment, which of its seats are trained, and by which algorithm."""
        self.make_env = env_factory(env)
        self.make_eval_env = _evaluated_in(eval_env, args)
        self.partners = dict(partners or {})
        made = self.make_env()
        args.recipe = label(args, env_arguments(made))
        self.seats = tuple(_own_seats(list(made.possible_agents), self.partners))
        self.trained = tuple(seat for seat in self.seats if seat not in (args.frozen or ()))
        self.algorithm = _fitting_algorithm(args, made, self.trained)

    def _make_team(
        self,
        model: Models,
        args: MAGRPOConfig,
        peft_config: PeftConfig | None,
        tokenizer: Tokenizers | None,
    ) -> None:
        """Which weights play the seats that no partner plays, and how they are sampled."""
        self.peft_given = copy.deepcopy(peft_config)
        self.team = build_team_model(
            model,
            self.seats,
            weights=args.weights or ("adapters" if peft_config is not None else "shared"),
            peft_config=peft_config,
            tokenizer=tokenizer,
            policies=args.policies,
            seed=args.seed,
            init_kwargs=args.take_init_kwargs(),
        )
        self.origin = origin(self.team)
        if args.frozen:
            self.team.freeze(args.frozen)
        self.team.admit(self._resting(args))
        if isinstance(self.team, AdapterWeights):
            try_out(self.team)
        self._date_is_given = TODAY in (args.chat_template_kwargs or {})
        self.token_policy = _token_policy(self.team, args)

    def _resting(self, args: MAGRPOConfig) -> Sequence[str]:
        """The policies of a population that have no seat in the beginning."""
        population = make_schedules(args.schedules).population
        if population is None or population.size is None:
            return ()
        population.check(self.trained, self.team.policy_of)
        others = (*self.seats, *self.partners)
        return Members(population, self.trained, self.team.policy_of, others).resting

    def _make_experience(self, args: MAGRPOConfig) -> None:
        """What is played, and who plays it."""
        names = self.team.policy_of
        self.collector = Collector(self.make_env, self.algorithm, args, self.trained, names)
        self.players = Players(
            self.token_policy,
            self.partners,
            self.collector.seating,
            self.collector.env,
            branches=self.algorithm.branching,
        )
        check_context(self.collector.env, self.token_policy, args)

    def _make_plan(self, args: MAGRPOConfig) -> PackPlan:
        env = self.collector.env
        turns, chats = most_turns(env, args) or 1, getattr(env.unwrapped, "chats", 1)
        # An algorithm that branches makes more trajectories of an episode than one.
        each = -(-self.collector.budget.trajectories // args.num_generations)
        seats = Counter(self.team.policy_of[agent] for agent in self.trained)
        seats.update(self.team.resting)  # who is drawn for a group has one seat in it
        return plan_micro_batches(
            {policy: count * self.collector.episodes_per_update for policy, count in seats.items()},
            {
                policy: each * (chats if chat.appends and appends(args.context) else turns)
                for policy, chat in self.token_policy.chats.items()
            },
            args.rows_per_micro_batch,
            args.loss_type,
            in_sequence=self.collector.schedules.sequential is not None,
        )

    def _gather(self) -> None:
        """What the processes of the run do together."""
        self.processes = Processes(self.accelerator, self._keep_before_the_end)
        self.interrupt = SaveOnInterrupt(self.processes.any)
        main = self.accelerator.is_main_process
        self.failures = FailedEpisodes(self.args, main, self._save_before_the_end)
        self.stage = Stage(self.collector, self.players, self.processes, self.clock)
        self.token_policy.timed = partial(self.clock.part, "sampling")
        today = [self.token_policy.today]
        if self.args.world_size > 1:  # midnight may lie between the first process and the last
            broadcast_object_list(today)
        self._date(today[0])

    def _settle(self) -> None:
        """What can only be done once TRL's constructor has run."""
        if self.is_deepspeed_enabled:
            raise ValueError(f"DeepSpeed is not supported: {NO_DEEPSPEED}")
        # The attribute came with transformers 5.19.
        if self.is_fsdp_enabled or getattr(self, "is_distributed_loading_by_transformers", False):
            raise ValueError(f"FSDP by accelerate or transformers is not supported: {NO_SHARDS}")
        if self.aux_loss_enabled:
            raise ValueError(
                "the load-balancing loss of a mixture-of-experts model is a mean over each "
                "micro-batch, so the split would change the gradient; set router_aux_loss_coef=0"
            )
        if isinstance(self.team, SeparateWeights):
            for policy in self.team.policies[1:]:  # TRL was constructed with the first
                fit_for_trl(self.team.model_of(policy), self.args)
            self.model = self.model_wrapped = self.team.module
            if not self.args.shard_weights:
                self.team.module.to(self.accelerator.device)
        if self.args.shard_weights:
            self._shard()
        if self.beta:
            self.team.remember_start(self.team.trained_policies)
        self._check_plan()
        # TRL's loss multiplies by the ratio only so; it never samples here.
        self.use_vllm = not self.engine.exact
        self.checkpoints = Checkpoints(self.args, self.accelerator)
        self.add_callback(self.interrupt)
        self.add_callback(AfterStep(self._after_step))
        self.add_callback(TokenBudget(lambda: self._spent))
        self.add_callback(FlatRewards(steps=self.steps_per_update))
        self.add_callback(Diagnosis())
        self.add_callback(LogFile(str(self.args.output_dir), self._sampler))
        callbacks, main = self.callback_handler.callbacks, self.accelerator.is_main_process
        self.trackers = Trackers(self.args, callbacks, writes=main)
        self.remove_callback(PrinterCallback)
        if not self.args.disable_tqdm:
            self.remove_callback(ProgressCallback)
            progress = TeamProgress(known=self.args.max_tokens is None)
            self.add_callback(progress)
            self.clock.watch = progress.now
        self.algorithm.attach(self.team)
        self.team.activate(self.team.policies[0])

    def _shard(self) -> None:
        """Divide the weights; accelerate would wrap the model in DDP."""
        if self.team.left_behind:
            raise ValueError(
                f"shard_weights: {sorted(self.team.left_behind)} play with the weights that a "
                "trained policy began with; let another policy play them (policies=, partners=)"
            )
        if self.args.world_size == 1:
            raise ValueError(
                "shard_weights divides the weights over processes, and there is one: start several "
                "by torchrun, or leave it out"
            )
        self.team.shard(self.accelerator.device, self.args.world_size)
        # Autocast alone; a model that is prepared is left as it is.
        self.accelerator.prepare_model(self.model, device_placement=False, evaluation_mode=True)

    def _check_plan(self) -> None:
        """Every process must run the same policy at the same time.

        DDP and FSDP would add up gradients of different policies, without an error.
        """
        mine = list(self.plan.micro_batches.items())
        plans = gather_object([mine]) if self.args.world_size > 1 else [mine]
        if any(plan != plans[0] for plan in plans):
            raise ValueError(
                f"the processes plan other micro-batches, (policy, number): {plans}; every process "
                "must make the same environment, with the same seats in the same order"
            )

    def get_train_dataloader(self) -> DataLoader[Any]:
        """A clock: one empty batch per micro-batch. Tasks come from the schedule instead."""
        ticks = [{"prompt": ""}] * (self.collector.schedule.updates_per_epoch * self._per_rollout)
        return DataLoader(ticks, batch_size=1, collate_fn=list)  # type: ignore[arg-type]

    @property
    def steps_per_update(self) -> int:
        """Steps of the optimizer in one update: of every policy in each iteration."""
        return self.plan.passes * self.args.num_iterations

    @property
    def _per_rollout(self) -> int:
        """Micro-batches, each seen in every iteration, until the next rollout."""
        return self.plan.total * self.steps_per_update

    @property
    def _update(self) -> int:
        """Number of the current rollout."""
        return self._step // self._per_rollout

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """The next micro-batch; a new rollout where the buffer is used up (the seam)."""
        if self._step % self._per_rollout == 0 or self._buffered_inputs is None:
            self._buffered_inputs = self._new_batches()
        batch = self._next_batch(self._buffered_inputs)
        self.team.activate(batch["policy"])
        return batch

    def _next_batch(self, batches: list[dict[str, Any]]) -> dict[str, Any]:
        """The micro-batch that comes next; in sequence, all of one policy before the next one's."""
        sequential = self.collector.schedules.sequential
        if sequential is None:
            return batches[self._step % self.plan.total]
        order = drawn_order(self.args.seed, self._update, [*self.plan.micro_batches])
        each = self.plan.total * self.args.num_iterations
        place, within = divmod(self._step % self._per_rollout, each)
        self._learner = order[place]
        mine = [batch for batch in batches if batch["policy"] == self._learner]
        if within == 0 and place > 0:
            earlier = [batch for batch in batches if batch["policy"] in order[:place]]
            with self.team.evaluating():
                ratios = log_ratios(earlier, OLD, self._log_probs)
            largest = weigh(mine, ratios, sequential.clip)
            mine_alone = torch.tensor([largest], device=self.accelerator.device)
            everywhere: Any = self.accelerator.gather(mine_alone)
            self._note({"schedule/ratio": float(everywhere.max())})
        return mine[within % self.plan.total]

    def _new_batches(self) -> list[dict[str, Any]]:
        """Roll out, judge, pack."""
        begun = time.perf_counter()
        self._before = self._step, on_host(self._of_playing())
        self.clock.taken()  # what lies between two updates is of neither
        self.players.keep(self._update)
        groups, inputs, advantages = self._experience()
        weights = self.algorithm.weights(inputs)
        advantages = advantages * weights
        keep = inputs.alive & (weights > 0)
        keep &= self.collector.schedules.trained_on(self._update, groups, self.trained)
        if self.args.mask_truncated_completions:
            keep = keep & uncut(groups, self.trained, keep.shape)
        mine = self.collector.seating.share
        own = self.collector.seating.own_turns(self._update, groups[mine])
        rows = pack_rows(own, self.trained, advantages[mine], keep[mine])
        batches = micro_batches(rows, self.plan, self.accelerator.device, self._most_rows(rows))
        total = self.processes.total
        count_everywhere(batches, groups, self.loss_type, total, self.args.world_size)
        if self.num_iterations > 1 or self._compares or self.plan.in_sequence:
            self._score(batches, OLD, lambda policy: nullcontext())
        if self._compares:
            self._check_engine(batches)
        if self.beta:
            self._score(batches, "ref_per_token_logps", self.team.at_start)
        self._log_update(groups, inputs.returns, begun)
        every = self.args.transcript_every
        if self.accelerator.is_main_process and every and self._update % every == 0:
            file = transcript(Path(str(self.args.output_dir)), "update", self._update)
            judged = advantages[0] * keep[0]
            write_group(file, groups[0], judged, self.trained, self.team.tokenizers)
            self.trackers.show(groups[0], self._update, self.state.global_step + 1)
        return batches

    def _most_rows(self, rows: Sequence[Row]) -> dict[str, int]:
        """Policy -> its rows on the process that has most of them."""
        counts = Counter(row.policy for row in rows)
        local = torch.tensor([[counts[policy] for policy in self.plan.micro_batches]])
        everywhere: Any = self.accelerator.gather(local.to(self.accelerator.device))
        return dict(zip(self.plan.micro_batches, everywhere.amax(dim=0).tolist(), strict=True))

    def _experience(self) -> tuple[list[EpisodeGroup], AdvantageInputs, np.ndarray]:
        """Play this process's share, judge the groups of all."""
        shared = self.engine.shared_tokens
        bounds = "sampling_batch_size", "kept_rows_mb", "max_completion_length"
        with self.clock.part("environments"), bounded_by("sampling", *bounds):
            groups = self.stage.groups(self._update)
        self._note_prompts(groups, self.engine.shared_tokens - shared)
        if self.args.world_size > 1:
            groups = gather_object(groups)  # in the order of the ranks
        episodes = [episode for group in groups for episode in group.episodes]
        self.failures.after_update(self._update, episodes, self.collector.failures)
        try:
            judged = self.collector.judge(self._update, groups)
        except FloatingPointError as error:  # on every process: all judge the same
            self.processes.stop(error)
            raise
        return (groups, *judged)

    @property
    def engine(self) -> SamplingEngine:
        """Who samples."""
        return self.token_policy.engine

    @property
    def seating(self) -> dict[str, Policy]:
        """Agent -> policy, partners included: the team with its present weights.

        Raises:
            ConnectionError: a sampling server does not take the weights.
        """
        self.engine.publish(self._update)
        return self.players.team

    @torch.no_grad()
    def _score(
        self,
        batches: list[dict[str, Any]],
        key: str,
        weights: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """Add log-probs (B, T) under other weights: the start of the update, or of the run."""
        error = None
        for batch in batches:
            with weights(batch["policy"]), self.team.evaluating():  # no dropout, as when sampled
                logprobs = self._log_probs(batch)
            bad = not_finite_rows(batch, logprobs)
            batch[key] = torch.where(batch["tool_mask"].bool(), logprobs, NOT_OWN[key])
            if bad and error is None:
                error = not_finite(self._update, f"{key} of {bad[0]}")
        self.processes.stop(error)

    def _check_engine(self, batches: list[dict[str, Any]]) -> None:
        """Stop where the engine's log-probs are not the trainer's; correct for it (deviation 5)."""
        self.processes.stop(
            self._drifted(
                self._update, [(b, b[OLD]) for b in batches], self._limits(self.engine.remote)
            )
        )
        for batch in batches:
            if not self.engine.exact:
                batch["importance_sampling_ratio"] = correction(batch, self.args)
            elif self.num_iterations == 1 and not self.plan.in_sequence:
                del batch[OLD]  # as with `generate`, to the last bit

    @property
    def _compares(self) -> bool:
        """Whether each token is scored before the update for comparison with its sampler."""
        return self.engine.remote or self.args.compare_sampling

    def _limits(self, copies: bool) -> Limits:
        mixed = bool(self.args.bf16 or self.args.tf32)
        return limits_of(self.team, copies=copies, mixed=mixed)

    def _drifted(
        self, update: int, scored: Sequence[tuple[Any, torch.Tensor]], limits: Limits
    ) -> Exception | None:
        """Log how far sampled log-probs are from the trainer's; an error where it is too far."""
        rank = self.args.process_index
        rows = [row for batch, scores in scored for row in differences(batch, scores, rank)]
        if self.args.world_size > 1:
            rows = gather_object(rows)
        drifts = measured(rows)
        self._note(logged(drifts))
        wrong = refusal(drifts, limits)
        message = f"update {update}, engine {self.engine.name}: {wrong}; no step was taken"
        return EngineDriftError(message) if wrong else None

    @cached_property
    def _drops(self) -> bool:
        return any(map(drops, self.team.bases))

    @property
    def _loss_form(self) -> LossForm | None:
        """How the loss moves log-probs while every ratio is 1; None where that is not known."""
        args, corrects = self.args, bool(self.use_vllm and self.vllm_importance_sampling_correction)
        if args.off_policy_mask_threshold is not None or (corrects and self.loss_type == "vespo"):
            return None
        most = math.inf if args.delta is None else args.delta
        if most < 1:  # a ratio of 1 is clipped
            return None
        clips = self.epsilon_low, self.epsilon_high, most - 1
        return LossForm(
            loss_type=self.loss_type,
            level=self.importance_sampling_level,
            beta=self.beta,
            weighs_kl=args.use_bias_correction_kl,
            longest=self.max_completion_length or 0,
            accumulated=self.plan.total,
            processes=args.world_size,
            corrects=corrects,
            near=min(NEAR_ONE, *(clip / 2 for clip in clips)),
            weight=min(1.0, self.epsilon_high) if self.loss_type == "cispo" else 1.0,
        )

    def _check_first_pass(self) -> None:
        """Stop before the step where a token was not scored as sampled, or not moved as judged.

        With dropout the trainer's log-probs are other ones than the sampler's on purpose.
        """
        passed = self._watch.taken()
        if not passed:
            return
        update = (self._step - 1) // self._per_rollout  # the step that ends now is counted
        wrong = next(filter(None, (one.wrong() for one in passed)), None)
        error: Exception | None = None
        if wrong:
            error = LostGradientError(
                f"update {update}: {wrong}; no step was taken. This is a fault of the "
                "library: please report it, with the run file"
            )
        if not (self._compares or self._drops):
            limits = of_first_pass(self._limits(copies=True), self.args.temperature)
            drift = self._drifted(update, [(one.batch, one.logprobs) for one in passed], limits)
            error = error or drift
        self.processes.stop(error)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """As in TRL; faster on a CPU, and what rows begin with is computed once."""
        shared = self._sharing(model)
        with in_place():
            found = super()._get_per_token_logps_and_entropies(shared or model, *args, **kwargs)
        if self._followed is not None:
            self._watch.follow(self._followed, found[0], self._loss_form)
        if shared is not None:
            self._tokens_read += np.array([shared.read, shared.whole])
        return found

    def _sharing(self, model: Any) -> SharedPrompts | None:
        """What computes shared prompts once; None where rows are computed whole."""
        if not self.args.share_prompts:
            return None
        base = self.team.base
        reason = NOT_SHARDED if self.team.sharded else why_whole(base)
        if reason is not None:
            warnings.warn(f"the update computes prompts once per row: {reason}", stacklevel=2)
            return None
        return SharedPrompts(model, self.accelerator.unwrap_model(model), base, self._own)

    @torch.no_grad()
    def _log_probs(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Log-probs (B, T) of a micro-batch's completion tokens under the present weights."""
        self.team.activate(batch["policy"])
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        width, self._own = batch["completion_ids"].size(1), batch["tool_mask"]
        return self._get_per_token_logps_and_entropies(self.model, ids, mask, width)[0]

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """As in TRL; where memory runs out, the error names what bounds it."""
        with bounded_by("learning", "rows_per_micro_batch", "max_completion_length"):
            return super().training_step(model, inputs, num_items_in_batch)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> torch.Tensor:
        """TRL's loss times the scale of the micro-batch, plus the algorithm's own loss."""
        self._own = inputs["tool_mask"]
        within = self._step % (self.plan.total * self.args.num_iterations)
        self._followed = inputs if within < self.plan.total and model.training else None
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        self._followed = None
        if model.training:
            self._own_tokens.append(inputs["own_tokens"])
        loss = loss * inputs["loss_scale"]
        extra = self.algorithm.extra_loss(inputs, model)
        if extra is not None:
            loss = loss + extra / self.plan.total
        error = None
        if not torch.isfinite(loss):
            # A forward pass of sharded weights is not one process's alone to take.
            found = [] if self.team.sharded else not_finite_rows(inputs, self._log_probs(inputs))
            rows = found or inputs["labels"]
            error = not_finite(self._update, f"loss {float(loss.detach())} of {'; '.join(rows)}")
        self.processes.stop(error)
        return loss

    # -- the optimiser ----------------------------------------------------------------------------
    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """One parameter group (two with weight decay) and one learning rate per policy."""
        if self.optimizer is None:
            whole: Any = self.model
            decayed = set(self.get_decay_parameter_names(whole))
            optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, whole)
            groups = parameter_groups(
                self.team,
                whole,
                decayed,
                rate=self.args.learning_rate,
                rates=self.args.policy_learning_rates,
                weight_decay=self.args.weight_decay,
            )
            self.optimizer = optimizer_class(groups, **kwargs)
            self.optimizer.register_step_pre_hook(self._leave_idle_policies)
            if self.team.sharded:
                keep_parts(self.optimizer)
        return self.optimizer

    def _learns(self, policy: str) -> bool:
        """Whether a policy takes part in the present step of the optimiser."""
        return self._learner in (None, policy)

    def _leave_idle_policies(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Before the optimiser's step (deviation 3)."""
        self._check_first_pass()
        own_loss = type(self.algorithm).extra_loss is not Algorithm.extra_loss
        batches = [b for b in self._buffered_inputs or () if self._learns(b["policy"])]
        weighed = not (self.beta or own_loss)
        idle = leave_idle(self.team, optimizer, batches, self.processes.total, weighed=weighed)
        self._note({f"{p}/idle": value for p, value in idle.items() if self._learns(p)})

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        """Clip each policy's gradient on its own; returns the norm over all."""
        optimizer: Any = self.optimizer
        clip = partial(self.accelerator.clip_grad_norm_, max_norm=self.args.max_grad_norm)
        norms = clip_each(self.team, optimizer, clip)
        self._note({f"{p}/grad_norm": float(norm) for p, norm in norms.items() if self._learns(p)})
        bad = [f"gradient of {p}" for p, norm in norms.items() if not torch.isfinite(norm)]
        update = (self._step - 1) // self._per_rollout  # the last micro-batch is counted
        self.processes.stop(not_finite(update, bad[0]) if bad else None)
        found = cosines(self.team, optimizer)
        self._note({f"{p}/grad_cosine": cosine for p, cosine in found.items() if self._learns(p)})
        return torch.stack(list(norms.values())).norm()

    # -- what is logged ---------------------------------------------------------------------------
    def _note(self, values: Mapping[str, float]) -> None:
        """Keep numbers of this update for its log entry."""
        for name, value in values.items():
            self._metrics["train"][name].append(value)

    def _log_update(
        self, groups: Sequence[EpisodeGroup], returns: np.ndarray, begun: float
    ) -> None:
        values = metrics.group_metrics(groups, returns)
        values["time/rollout"] = time.perf_counter() - begun
        values |= self.collector.schedules.logged(self._update, groups)
        values |= self.players.logged(self._update)
        for name, count in self.algorithm.counters.items():
            values[f"algorithm/{name}"] = count
        self._note(values)
        again = self.trained if self.args.random_partner else ()
        spent = update_costs(groups, self.algorithm.counters, again)
        self.costs, self._sampled = self.costs.plus(spent), spent.tokens
        self._count_time()
        for name, count in self.costs.logged().items():
            # A count, of which the last is logged; TRL logs the mean of what was appended.
            self._metrics["train"][name] = [count]

    def _note_prompts(self, groups: Sequence[EpisodeGroup], shared: int) -> None:
        """What of this process's prompts was read, of an engine that tells it."""
        if not self.engine.remote:
            read = update_costs(groups, {}).prompt_tokens or 0
            self._note({"sharing/prompts": 1 - shared / max(read, 1)})

    def _after_step(self) -> None:
        """Log where the time of an update went, after its last step."""
        if self._step % self._per_rollout:
            return
        seconds = self.clock.taken()
        parts = ("sampling", "environments", "publishing", REST)
        self._note({f"time/{part}": seconds.get(part, 0.0) for part in parts})
        self._note({"speed/tokens": self._sampled / max(seconds.get("sampling", 0.0), 1e-9)})
        read, whole = self._tokens_read
        if whole:
            self._note({"sharing/rows": float(read / whole)})
        self._tokens_read = np.zeros(2)
        self._note({"memory/peak": peak_mib(self.accelerator.device)})

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As in TRL; a mean over tokens is one, however they lie in micro-batches."""
        if self.model.training and self._own_tokens:
            kept = self._metrics["train"]
            for name, value in metrics.weighed(kept, self._own_tokens).items():
                kept[name] = [value]
            self._own_tokens.clear()
        super().log(logs, start_time)

    def _count_time(self) -> None:
        """Add the time since this was last called."""
        now = time.perf_counter()
        self.costs = self.costs.plus(Costs(seconds=now - self._counted_at))
        self._counted_at = now

    @property
    def _spent(self) -> bool:
        """Whether the last update reached `max_tokens`, and all was learned from it."""
        most = self.args.max_tokens
        spent = most is not None and self.costs.tokens >= most
        return spent and self._step % self._per_rollout == 0

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Play `eval_tasks` tasks of `eval_env` (an error without one) once each; log the means."""
        if self.make_eval_env is None:
            raise ValueError("evaluate() needs eval_env= in the trainer's constructor")
        failures = Failures(self.make_eval_env, REPEATS)
        try:
            with self.clock.stopped(), self.stage.ready(self._update):
                seats = self.players.team
                episodes = evaluation_episodes(self.make_eval_env, seats, self.args, failures)
        finally:
            if not self.is_in_train:  # servers of its own would run on until the process ends
                self.engine.close()
        values = metrics.evaluation_metrics(episodes, metric_key_prefix)
        failed = [episode for episode in episodes if episode.failed]
        if self.args.world_size > 1:  # one process's numbers for all: they decide what is saved
            values, failed = broadcast_object_list([values, failed])
        self.failures.after_evaluation(self.state.global_step, failed, len(episodes), failures)
        with self.team.evaluating():  # else TRL would file the training metrics under this entry
            self.log(values)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, values
        )
        return values

    def train(
        self,
        resume_from_checkpoint: Any = None,
        trial: Any = None,
        ignore_keys_for_eval: Any = None,
    ) -> Any:
        """As `transformers.Trainer.train`; the first Ctrl-C saves a checkpoint and stops.

        Args:
            resume_from_checkpoint: None begins; True goes on from the newest checkpoint in
                `output_dir`, a folder from that one. The settings must be those that the run began
                with; more updates, paths, logging, saving and the times of evaluation may change.
            trial: as in transformers.
            ignore_keys_for_eval: as in transformers.

        Raises:
            ValueError: `output_dir` holds another run, or this one and nothing is resumed, or the
                checkpoint is of a run with other settings; the message names what differs.
        """
        self._date_as_begun(resume_from_checkpoint)
        run = self.this_run()
        with run.held(resume_from_checkpoint, self.accelerator) as checkpoint:
            ended = checkpoint and self.checkpoints.ended(checkpoint, run.updates)
            if ended:
                return self._load_ended(str(checkpoint), ended)
            resume = None if checkpoint is None else str(checkpoint)
            try:
                begun = 0 if checkpoint is None else step_of(checkpoint)
                with self.interrupt.listening(), self.trackers.following(checkpoint, begun):
                    self._counted_at = time.perf_counter()
                    trained = super().train(resume, trial, ignore_keys_for_eval)
                    self._count_time()
                    return trained
            finally:
                self.engine.close()

    def _load_ended(self, checkpoint: str, state: TrainerState) -> TrainOutput:
        """Have what a run that is over has learned."""
        self._load_from_checkpoint(checkpoint)
        self.state = state
        # Every process counts the tokens of all; there may have been fewer of them then.
        kept = self.checkpoints.read(checkpoint, rank=0)
        self.costs = Costs(**kept["costs"])
        self.algorithm.load_state_dict(kept["algorithm"])
        return TrainOutput(state.global_step, 0.0, {})

    @property
    def stopped(self) -> bool:
        """Whether a signal ended `train` before the last update; it left a checkpoint."""
        return self.interrupt.stopping and self.state.global_step < self.state.max_steps

    def _date(self, today: str | None) -> None:
        """Let chat templates write this date, which is a setting of the run."""
        if self.token_policy.today is not None:
            self.token_policy.date(today)
            self.args.chat_template_kwargs = dict(self.token_policy.template_kwargs or {})

    def _date_as_begun(self, resume: Any) -> None:
        """A run that goes on reads the date of its start, unless its settings name another one."""
        if self.token_policy.today is None or self._date_is_given:
            return
        with suppress(ValueError):  # no checkpoint, or a damaged one: refused where it is needed
            checkpoint = checkpoint_to_resume(Path(str(self.args.output_dir)), resume)
            if checkpoint is not None:
                then = recorded_settings(checkpoint)["trainer"].get("chat_template_kwargs") or {}
                self._date(then.get(TODAY, self.token_policy.today))

    # -- the folder and its checkpoints -----------------------------------------------------------
    @cached_property
    def _environments(self) -> dict[str, Any]:
        eval_env = None if self.make_eval_env is None else self.make_eval_env()
        return environments_of(self.collector.env, eval_env)

    def this_run(self) -> Run:
        """What is about to be trained, and where."""
        settings = settings_of(
            model=self.origin,
            environments=self._environments,
            peft_config=self.peft_given,
            partners={
                **self.partners,
                **{f"pool, {name}": policy for name, policy in self.players.opponents.items()},
            },
            args=self.args,
        )
        per_epoch = self.collector.schedule.updates_per_epoch * self.steps_per_update
        return Run(folder=Path(str(self.args.output_dir)), settings=settings, per_epoch=per_epoch)

    def check_folder(self, resume: Any = None) -> Path | None:
        """Whether `train(resume)` may begin; the checkpoint that it would go on from.

        Raises:
            ValueError: the folder holds a run, or the checkpoint is of another one.
        """
        self._date_as_begun(resume)
        return decided(self.accelerator, lambda: self.this_run().check(resume))

    def save_team(self, folder: str | Path) -> None:
        """Write the team so that `load_team`, PEFT or Transformers can load it.

        The first process writes; with `shard_weights` every one must call it.
        """
        env = {
            "env_id": self._environments["env"],
            "env_kwargs": self._environments["env_kwargs"],
            "max_completion_length": self.args.max_completion_length,
            "temperature": self.args.temperature,
            **self.algorithm.saves(),
        }
        sampler = sampled_by(self.args)
        if isinstance(sampler, dict):
            env["sampled_by"] = {**self._sampler(), **sampler}
        if self.token_policy.template_kwargs:
            env["chat_template_kwargs"] = dict(self.token_policy.template_kwargs)
        if self.token_policy.tool_format != "line":
            env["tool_format"] = self.token_policy.tool_format
        name = self.args.recipe or algorithm_name(self.args.algorithm)
        trained = training_facts(name, self.state)
        writes = self.accelerator.is_main_process
        save_team(self.team, folder, env=env, trained=trained, writes=writes)
        if writes:
            self.algorithm.save(Path(folder))

    def _sampler(self) -> dict[str, Any]:
        """The engine's name, its version where it is known, the weights' dtype, its exactness."""
        dtype = next(self.team.module.parameters()).dtype
        software = {"software": self.engine.software} if self.engine.software else {}
        about = {"dtype": str(dtype).removeprefix("torch."), **software}
        return {"name": self.engine.name, "exact": self.engine.exact, **about}

    def create_model_card(
        self, model_name: str | None = None, dataset_name: str | None = None, tags: Any = None
    ) -> None:
        """Nothing: TRL's card knows neither team nor environment; `save_team` writes true ones."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As in transformers; of sharded weights every process brings its part."""
        if self.team.sharded and not self.args.should_save:
            self._save(output_dir)
        else:
            super().save_model(output_dir, _internal_call)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(str(output_dir or self.args.output_dir))
        if self.args.should_save or self.team.sharded:
            self.save_team(folder)
        if self.args.should_save:
            write_settings(folder, self.this_run().settings)
            if self.checkpoints.staging:
                self.players.write(folder)
            torch.save(self.args, folder / "training_args.bin")

    def _get_output_dir(self, trial: Any) -> str:
        return self.checkpoints.staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run_dir = Path(super()._get_output_dir(trial))
        write = partial(super()._save_checkpoint, model, trial)
        with self.clock.stopped():
            self.checkpoints.write(run_dir, self.state, write, self._own_state)

    def _save_before_the_end(self) -> bool:
        """A checkpoint of a run that an error is about to end; False if it has not trained yet."""
        if not (self.is_in_train and self.state.global_step):
            return False
        self._save_checkpoint(self.model, None)
        return True

    def _keep_before_the_end(self) -> str:
        """As `_save_before_the_end`, unless the state is not finite; says what is kept."""
        folder, made = Path(str(self.args.output_dir)), self.state.global_step
        if self.is_in_train and not self.processes.all(self._is_finite()):
            newest = newest_checkpoint(folder)
            kept = f"the newest checkpoint is {newest}" if newest else "there is no checkpoint"
            return f"what the run has learned by step {made} is not finite and is not kept; {kept}"
        if not self._save_before_the_end():
            return ""
        kept = checkpoint_after(folder, made)
        return f"{kept} keeps what was learned before; go on with resume_from_checkpoint=true"

    def _is_finite(self) -> bool:
        """Whether all is that this process would keep of what the run has learned."""
        weights = [self.team.parameters(policy) for policy in self.team.trained_policies]
        moments = [*self.optimizer.state.values()] if self.optimizer else []
        return all_finite([weights, moments, self._before_step()["algorithm"]])

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        for policy in self.team.policies:
            self.team.load_policy(policy, Path(resume_from_checkpoint) / policy)
        self.team.activate(self.team.policies[0])

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            state = self.checkpoints.read_on(checkpoint, self._own_state())
            self._go_on(state)
            self.players.restore(Path(checkpoint), state["pool"])

    def _own_state(self) -> dict[str, Any]:
        """What a checkpoint keeps of this process beside weights and optimiser."""
        self._count_time()
        step = self.state.global_step * self.plan.total  # one that an error ended is taken again
        return {
            **self._before_step(),
            "step": step,
            # Needed only between the iterations over one rollout.
            "buffer": self._buffered_inputs if step % self._per_rollout else None,
            "start": self.team.start_digest(),
            "pool": {policy: [*updates] for policy, updates in self.players.kept.items()},
            "optimizer": self._optimizer_parts(),
            # What the position inside an update counts in.
            "split": {
                "micro_batches": self.plan.total,
                "num_iterations": self.args.num_iterations,
                "processes": self.args.world_size,
            },
        }

    def _before_step(self) -> dict[str, Any]:
        """What playing changes, as it was before an update that an error ends in its first step."""
        began, before = self._before
        if self.state.global_step * self.plan.total != began:
            return self._of_playing()
        return {**before, "costs": {**before["costs"], "seconds": self.costs.seconds}}

    def _of_playing(self) -> dict[str, Any]:
        """What the play of an update changes."""
        return {
            "algorithm": self.algorithm.state_dict(),
            "costs": dataclasses.asdict(self.costs),
            "failures": [list(update) for update in self.failures.window.updates],
        }

    def _optimizer_parts(self) -> dict[str, Any] | None:
        """This process's part of the optimiser's state, where weights are sharded.

        Beside it lies what transformers writes: the first process's, which says there is one.
        """
        return self.optimizer.state_dict() if self.team.sharded and self.optimizer else None

    def _go_on(self, state: Mapping[str, Any]) -> None:
        """The inverse of `_own_state`."""
        if self.team.sharded and self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self._step = state["step"]
        self._buffered_inputs = state["buffer"]
        self.costs = Costs(**state["costs"])
        self.algorithm.load_state_dict(state["algorithm"])
        self.failures.window = FailureWindow(tuple(map(tuple, state["failures"])))


def _evaluated_in(eval_env: Any, args: MAGRPOConfig) -> Callable[[], Any] | None:
    if eval_env is not None:
        return env_factory(eval_env)
    if args.eval_strategy != "no":
        raise ValueError(
            "eval_strategy is set and there is nothing to evaluate in: give eval_env=, or "
            "eval_env_kwargs in a run file"
        )
    return None


def _fitting_algorithm(args: MAGRPOConfig, env: Any, trained: Sequence[str]) -> Algorithm:
    algorithm = make_algorithm(args.algorithm, args)
    algorithm.check(env, trained)
    return algorithm


def _token_policy(team: TeamModel, args: MAGRPOConfig) -> TokenPolicy:
    template_kwargs: Any = args.chat_template_kwargs  # parsed from JSON text by now
    return TokenPolicy(
        team,
        max_completion_length=args.max_completion_length,
        temperature=args.temperature,
        engine=make_engine(args.engine, team, args),
        template_kwargs=template_kwargs,
        tool_format=args.tool_format,
    )


def _own_seats(seats: list[str], partners: Mapping[str, Policy]) -> tuple[str, ...]:
    unknown = sorted(set(partners) - set(seats))
    if unknown:
        raise ValueError(f"partners for {unknown}: the environment has the agents {seats}")
    own = tuple(agent for agent in seats if agent not in partners)
    if not own:
        raise ValueError("every seat has a partner; leave at least one to be trained")
    return own


def _rewards_come_from_the_environment(*_: Any, **__: Any) -> list[float | None]:
    """TRL wants a reward function; the seam replaces the stage that would call it."""
    raise AssertionError("TRL asked for a reward: its _prepare_inputs was not replaced")
