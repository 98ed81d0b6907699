"""`MAGRPOTrainer`: TRL's `GRPOTrainer` with a team of agents in any text PettingZoo environment.

TRL keeps the optimiser step, schedule, accumulation, loss, logging and the training loop. The seam
is `_prepare_inputs`: instead of generating from a dataset, episodes are rolled out, turned into
advantages and packed into micro-batches of one policy each. Beside it, `create_optimizer` (one
group per policy), `compute_loss` (a scale), `_clip_grad_norm` (per policy) and the checkpoint
methods are overridden. `tests/test_trl_seam.py` fails where an upgrade of TRL moves any of this.

Deviations from TRL:
1. One row holds all turns of one agent; advantages have shape (B, T), which TRL's loss accepts.
2. The gradient is clipped per policy, so that no agent's step depends on another's gradient.
3. A policy whose advantages are all zero in an update is not stepped at all: AdamW would move it by
   weight decay and momentum.
4. Sampling uses one seed per row (`sampling.py`), so an update is a function of (seed, update).
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from peft import PeftConfig
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProgressCallback
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import rotate_checkpoints
from trl import GRPOTrainer

from llm_marl_envs.policies import Policy, derive_seed
from llm_marl_envs.records import EpisodeGroup, write_jsonl
from llm_marl_envs.rollout import Start, env_name, rollout
from llm_marl_envs.vector import VectorTextEnv, env_factory
from trainers import metrics
from trainers.algorithms import AdvantageInputs, Algorithm, make_algorithm
from trainers.callbacks import SaveOnInterrupt, TeamProgress
from trainers.config import MAGRPOConfig
from trainers.packing import PackPlan, micro_batches, pack_rows, reward_array
from trainers.returns import discounted_returns, team_rewards
from trainers.schedules import TaskSchedule
from trainers.team_model import build_team_model, save_team
from trainers.token_policy import TokenPolicy

STATE_FILE = "magrpo_state_{rank}.pt"
STAGING = ".partial-checkpoint"


class MAGRPOTrainer(GRPOTrainer):
    """Train a team of language models with multi-agent GRPO.

    >>> trainer = MAGRPOTrainer("Qwen/Qwen2.5-Coder-0.5B-Instruct", "coop_coding-v0",
    ...                         MAGRPOConfig("runs/first"), peft_config=LoraConfig(r=16))
    >>> trainer.train()

    Args:
        model: a name or folder that `from_pretrained` takes, or a loaded model.
        env: a registered id, a function that makes the environment, or any PettingZoo environment
            with text observations and actions.
        args: the settings.
        peft_config: train LoRA (or other PEFT) adapters instead of the whole model.
        processing_class: the tokenizer, loaded from `model` where None.
        partners: agent -> policy, for seats that are played but not trained.
        policies: agent -> adapter name, where seats share adapters; each its own where None.
        eval_env: like `env`, for evaluation during training (`eval_strategy`).
        callbacks: further callbacks of transformers.

    Raises:
        ValueError: something does not fit together; said before any work starts.
    """

    _tag_names = ["trl", "grpo", "magrpo", "llm-marl-envs"]
    _name = "MAGRPO"
    _paper = {
        "title": "LLM Collaboration With Multi-Agent Reinforcement Learning",
        "id": "2508.04652",
    }

    def __init__(  # noqa: PLR0913 (constructor in the shape of TRL's)
        self,
        model: str | PreTrainedModel,
        env: Any,
        args: MAGRPOConfig | None = None,
        *,
        peft_config: PeftConfig | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        partners: Mapping[str, Policy] | None = None,
        policies: Mapping[str, str] | None = None,
        eval_env: Any = None,
        callbacks: list[Any] | None = None,
    ) -> None:
        args = copy.copy(args) if args is not None else MAGRPOConfig("magrpo")
        self.make_env = env_factory(env)
        self.make_eval_env = None if eval_env is None else env_factory(eval_env)
        self._first_env = self.make_env()
        self.partners = dict(partners or {})
        seats = list(self._first_env.possible_agents)
        unknown = sorted(set(self.partners) - set(seats))
        if unknown:
            raise ValueError(f"partners for {unknown}: the environment has the agents {seats}")
        self.trained = tuple(agent for agent in seats if agent not in self.partners)
        if not self.trained:
            raise ValueError("every seat has a partner; leave at least one to be trained")
        self.algorithm: Algorithm = make_algorithm(args.algorithm, args)
        mode = args.weights or ("adapters" if peft_config is not None else "shared")
        self.team = build_team_model(
            model,
            self.trained,
            weights=mode,
            peft_config=peft_config,
            tokenizer=processing_class,
            policies=policies,
            seed=args.seed,
        )
        self.token_policy = TokenPolicy(
            self.team,
            max_completion_length=args.max_completion_length,
            temperature=args.temperature,
            batch_size=args.sampling_batch_size,
        )
        self.schedule = self._make_schedule(args)
        self._check_context(args)
        self.plan = self._make_plan(args)
        args.per_device_train_batch_size = args.rows_per_micro_batch
        args.gradient_accumulation_steps = self.plan.total
        args.steps_per_generation = self.plan.total
        args.generation_batch_size = args.rows_per_micro_batch * self.plan.total * args.world_size
        placeholder = Dataset.from_dict({"prompt": [""]})  # TRL's loop wants one; ours drives it
        super().__init__(
            model=self.team.module,
            reward_funcs=_rewards_come_from_the_environment,
            args=args,
            train_dataset=placeholder,
            eval_dataset=placeholder if eval_env is not None else None,
            processing_class=self.team.tokenizer,
            callbacks=callbacks,
        )
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise ValueError(
                "DeepSpeed and FSDP are not supported: gradients are clipped and saved per policy; "
                "use DDP (accelerate launch --multi_gpu)"
            )
        self.interrupt = SaveOnInterrupt()
        self.add_callback(self.interrupt)
        self.remove_callback(PrinterCallback)
        if not args.disable_tqdm:
            self.remove_callback(ProgressCallback)
            self.add_callback(TeamProgress())
        self._copies: VectorTextEnv | None = None
        self._idle: set[str] = set()
        self._sampled_tokens = 0
        self._rollout_ended = 0.0
        self.team.activate(self.team.policies[0])

    # -- set-up -----------------------------------------------------------------------------------
    def _make_schedule(self, args: MAGRPOConfig) -> TaskSchedule:
        if args.tasks_per_update % args.world_size:
            raise ValueError(
                f"tasks_per_update={args.tasks_per_update} does not divide among "
                f"{args.world_size} processes; use a multiple"
            )
        source = getattr(self._first_env.unwrapped, "source", None)
        if source is None and args.max_steps <= 0:
            raise ValueError("this environment has no task source: set max_steps")
        n_tasks = None if source is None else len(source)
        return TaskSchedule(n_tasks, args.tasks_per_update, args.seed)

    def _make_plan(self, args: MAGRPOConfig) -> PackPlan:
        """How many micro-batches each policy gets; rows of one policy never share one."""
        episodes = args.tasks_per_update // args.world_size * args.num_generations
        turns = getattr(self._first_env.unwrapped, "max_turns", 1)
        one_row = self.token_policy.chat.appends and args.context == "append"
        trajectories: dict[str, int] = {}
        for agent in self.trained:
            policy = self.team.policy_of[agent]
            trajectories[policy] = trajectories.get(policy, 0) + episodes
        counts = {
            policy: -(-n * (1 if one_row else turns) // args.rows_per_micro_batch)
            for policy, n in trajectories.items()
        }
        pad_id = self.team.tokenizer.pad_token_id
        return PackPlan(
            micro_batches=counts,
            loss_type=args.loss_type,
            pad_id=pad_id,
            trajectories=trajectories,
        )

    def _check_context(self, args: MAGRPOConfig) -> None:
        """Refuse, before any work, episodes that cannot fit into the model's context."""
        limit = self.team.context_length
        env = self._first_env.unwrapped
        if limit is None or not hasattr(env, "opening"):
            return
        step = max(1, len(env.source) // 256)  # a spread sample of large sources
        for index in range(0, len(env.source), step):
            task = env.source[index]
            for agent in self.trained:
                opening = len(self.token_policy.chat.opening(env.opening(task)[agent]))
                longest = opening + env.max_turns * args.max_completion_length
                if longest > limit:
                    raise ValueError(
                        f"task {task.id!r}: {agent} may need {longest} tokens ({opening} to begin "
                        f"with, {env.max_turns} x {args.max_completion_length} to answer) and the "
                        f"model's context holds {limit}; lower max_completion_length or turns"
                    )

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """One parameter group (two with weight decay) and one learning rate per policy."""
        if self.optimizer is not None:
            return self.optimizer
        rates = dict(self.args.policy_learning_rates or {})
        unknown = sorted(set(rates) - set(self.team.policies))
        if unknown:
            raise ValueError(
                f"policy_learning_rates for {unknown}: the policies are {list(self.team.policies)}"
            )
        decayed = set(self.get_decay_parameter_names(self.model))
        decayed_ids = {id(p) for name, p in self.model.named_parameters() if name in decayed}
        groups = []
        for policy in self.team.policies:
            for decay in (True, False):
                own = [p for p in self.team.parameters(policy) if (id(p) in decayed_ids) is decay]
                if own:
                    groups.append(
                        {
                            "params": own,
                            "lr": rates.get(policy, self.args.learning_rate),
                            "weight_decay": self.args.weight_decay if decay else 0.0,
                        }
                    )
        optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        optimizer = optimizer_class(groups, **kwargs)
        optimizer.register_step_pre_hook(self._leave_idle_policies)
        self.optimizer = optimizer
        return optimizer

    def get_train_dataloader(self) -> DataLoader[Any]:
        """A clock: one empty batch per micro-batch. Tasks come from the schedule instead."""
        per_update = self.plan.total * self.args.num_iterations
        ticks = [{"prompt": ""}] * (self.schedule.updates_per_epoch * per_update)
        return DataLoader(ticks, batch_size=1, collate_fn=list)  # type: ignore[arg-type]

    # -- one update -------------------------------------------------------------------------------
    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """The next micro-batch; a new rollout where the buffer is used up (the seam)."""
        every = self.plan.total * self.num_iterations
        if self._step % every == 0 or self._buffered_inputs is None:
            self._buffered_inputs = self._new_batches(self._step // every)
        batch = self._buffered_inputs[self._step % self.plan.total]
        self.team.activate(batch["policy"])
        return batch

    def _new_batches(self, update: int) -> list[dict[str, Any]]:
        """Roll out, judge, pack."""
        begun = time.perf_counter()
        groups = self._rollout(update)
        inputs, advantages = self._advantages(groups)
        keep = self.algorithm.keep(advantages, inputs)
        rows = pack_rows(groups, self.trained, advantages, keep)
        device = self.accelerator.device
        batches = micro_batches(rows, self.plan, device)
        self._share_counts(batches)
        self._find_idle(batches)
        ended = time.perf_counter()
        self._log_update(update, groups, {"time/rollout": ended - begun})
        if self._rollout_ended:
            share = (begun - self._rollout_ended) / (ended - self._rollout_ended)
            self._metrics["train"]["time/update_share"].append(share)
        self._rollout_ended = ended
        if self.num_iterations > 1:
            self._add_old_logprobs(batches)
        return batches

    def _rollout(self, update: int) -> list[EpisodeGroup]:
        size = self.args.num_generations
        local = self.schedule.per_update // self.args.world_size
        first = self.args.process_index * local
        starts: list[Start] = []
        for position, task in list(enumerate(self.schedule.tasks(update)))[first : first + local]:
            seed = self.schedule.reset_seed(update, position)
            planned = self.algorithm.plan(task, size, seed)
            if len(planned) != size:
                raise ValueError(
                    f"{self.algorithm.name}.plan returned {len(planned)} episodes, expected {size}"
                )
            starts += planned
        if self._copies is None:
            copies = [self._first_env, *(self.make_env() for _ in range(len(starts) - 1))]
            self._copies = VectorTextEnv(copies)
        team = {**dict.fromkeys(self.trained, self.token_policy), **self.partners}
        episodes = rollout(self._copies, team, starts, context=self.args.context)
        for number, episode in enumerate(episodes):
            for turn in episode.turns:
                if not math.isfinite(turn.reward):
                    self._not_finite(
                        f"reward {turn.reward} of {turn.agent}, turn {turn.index}, task "
                        f"{episode.task_id!r}, seed {episode.seed}, episode {number % size}"
                    )
        return [
            EpisodeGroup(
                task_id=episodes[i].task_id,
                seed=episodes[i].seed,
                episodes=tuple(episodes[i : i + size]),
            )
            for i in range(0, len(episodes), size)
        ]

    def _advantages(self, groups: Sequence[EpisodeGroup]) -> tuple[AdvantageInputs, np.ndarray]:
        seats = list(self._first_env.possible_agents)
        rewards, alive = reward_array(groups, seats)
        if self.args.credit == "team":
            rewards = team_rewards(rewards, alive)
        own = [seats.index(agent) for agent in self.trained]
        rewards, alive = rewards[:, :, own], alive[:, :, own]
        rewards = self.algorithm.transform_rewards(rewards, groups)
        inputs = AdvantageInputs(
            returns=discounted_returns(rewards, alive, self.args.discount),
            rewards=rewards,
            alive=alive,
            agents=self.trained,
            policies=self.team.policy_of,
            groups=tuple(groups),
        )
        advantages = self.algorithm.advantages(inputs)
        bad = np.argwhere(alive & ~np.isfinite(advantages))
        if len(bad):
            task, episode, agent, turn = bad[0]
            self._not_finite(
                f"advantage of {self.trained[agent]}, turn {turn}, task "
                f"{groups[task].task_id!r}, episode {episode} of its group"
            )
        return inputs, np.where(alive, advantages, 0.0)

    def _share_counts(self, batches: list[dict[str, Any]]) -> None:
        """Token losses divide by the policy's tokens on all ranks."""
        for batch in batches:
            total = self.accelerator.reduce(batch["num_items_in_batch"], reduction="sum")
            batch["num_items_in_batch"] = total

    def _find_idle(self, batches: list[dict[str, Any]]) -> None:
        """Which policies have nothing to learn from these batches, on any rank."""
        self._idle = set()
        if type(self.algorithm).extra_loss is not Algorithm.extra_loss:
            return
        for policy in self.team.policies:
            weight = sum(
                (batch["advantages"] * batch["tool_mask"]).abs().sum()
                for batch in batches
                if batch["policy"] == policy
            )
            total = self.accelerator.reduce(torch.as_tensor(weight), reduction="sum")
            if float(total) == 0.0:
                self._idle.add(policy)
            self._metrics["train"][f"{policy}/idle"].append(float(policy in self._idle))

    def _leave_idle_policies(self, *_: Any) -> None:
        """Before the optimiser step: no gradient, no step, no decay for idle policies."""
        for policy in self._idle:
            for parameter in self.team.parameters(policy):
                parameter.grad = None

    @torch.no_grad()
    def _add_old_logprobs(self, batches: list[dict[str, Any]]) -> None:
        """The learner's log-probs at the start of the update, which later iterations compare to."""
        for batch in batches:
            self.team.activate(batch["policy"])
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
            mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
            width = batch["completion_ids"].size(1)
            logprobs, _, _ = self._get_per_token_logps_and_entropies(self.model, ids, mask, width)
            batch["old_per_token_logps"] = logprobs

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> torch.Tensor:
        """TRL's loss times the scale of the micro-batch, plus the algorithm's own loss."""
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = loss * inputs["loss_scale"]
        extra = self.algorithm.extra_loss(inputs, model)
        if extra is not None:
            loss = loss + extra / self.plan.total
        finite = self.accelerator.reduce(torch.isfinite(loss.detach()).float(), reduction="sum")
        if float(finite) < self.args.world_size:
            self._not_finite(f"loss {float(loss.detach())} over {inputs['labels']}")
        return loss

    def _not_finite(self, what: str) -> None:
        raise FloatingPointError(
            f"update {self._step // (self.plan.total * self.num_iterations)}: {what} is not "
            "finite; training stopped before the weights were touched"
        )

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        """Clip each policy's gradient on its own; returns the norm over all."""
        norms = []
        for policy in self.team.policies:
            norm = self.accelerator.clip_grad_norm_(
                self.team.parameters(policy), self.args.max_grad_norm
            )
            self._metrics["train"][f"{policy}/grad_norm"].append(float(norm))
            norms.append(torch.as_tensor(norm))
        return torch.stack(norms).norm()

    def _log_update(
        self, update: int, groups: Sequence[EpisodeGroup], extra: Mapping[str, float]
    ) -> None:
        values = {**metrics.group_metrics(groups), **extra}
        for name, count in self.algorithm.counters.items():
            values[f"algorithm/{name}"] = count
        episodes = [episode for group in groups for episode in group.episodes]
        for episode in episodes:
            for turn in episode.turns:
                if turn.agent in self.trained:
                    self._sampled_tokens += len(turn.response.completion_ids or ())
        values["num_tokens"] = float(self._sampled_tokens)
        for name, value in values.items():
            self._metrics["train"][name].append(value)
        every = self.args.transcript_every
        if every and update % every == 0 and self.accelerator.is_main_process:
            path = Path(self.args.output_dir) / "transcripts" / f"update-{update:06d}.jsonl"
            write_jsonl(path, groups[0].episodes)

    # -- evaluation during training ---------------------------------------------------------------
    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Play `eval_tasks` tasks of `eval_env` once each and log the mean return and success.

        Raises:
            ValueError: the trainer was given no `eval_env`.
        """
        if self.make_eval_env is None:
            raise ValueError("evaluate() needs eval_env= in the trainer's constructor")
        env = self.make_eval_env()
        source = getattr(env.unwrapped, "source", None)
        count = min(self.args.eval_tasks, len(source)) if source else self.args.eval_tasks
        seeds = [derive_seed("eval", self.args.seed, i) % 2**32 for i in range(count)]
        starts = [
            Start(task=i if source else None, seed=seed, sample_seed=seed)
            for i, seed in enumerate(seeds)
        ]
        copies = VectorTextEnv([env, *(self.make_eval_env() for _ in range(count - 1))])
        team = {**dict.fromkeys(self.trained, self.token_policy), **self.partners}
        episodes = rollout(copies, team, starts, context=self.args.context)
        copies.close()
        values = {f"{metric_key_prefix}_reward": float(np.mean([e.team_return for e in episodes]))}
        judged = [e.success for e in episodes if e.success is not None]
        if judged:
            values[f"{metric_key_prefix}_success"] = float(np.mean(judged))
        self.log(values)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, values
        )
        return values

    # -- saving and resuming ----------------------------------------------------------------------
    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As `transformers.Trainer.train`; the first Ctrl-C saves a checkpoint and stops."""
        with self.interrupt.listening():
            return super().train(*args, **kwargs)

    def env_description(self) -> dict[str, Any]:
        """What the team plays, as `team.json` keeps it."""
        env = self._first_env
        return {"env_id": env_name(env), "env_kwargs": dict(getattr(env, "env_kwargs", {}))}

    def save_team(self, folder: str | Path) -> None:
        """Write the team so that `load_team`, PEFT or Transformers can load it."""
        save_team(self.team, folder, env=self.env_description())

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.args.should_save:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            self.save_team(folder)
            torch.save(self.args, folder / "training_args.bin")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        for policy in self.team.policies:
            self.team.load_policy(policy, Path(resume_from_checkpoint) / policy)
        self.team.activate(self.team.policies[0])

    def _get_output_dir(self, trial: Any) -> str:
        return self._staging or super()._get_output_dir(trial)

    _staging: str | None = None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write the checkpoint aside and rename it: a checkpoint is complete or absent."""
        run_dir = Path(super()._get_output_dir(trial))
        self._staging = str(run_dir / STAGING)
        if self.accelerator.is_main_process:
            shutil.rmtree(self._staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            super()._save_checkpoint(model, trial)
            name = f"checkpoint-{self.state.global_step}"
            self._save_own_state(Path(self._staging) / name)
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                _publish(Path(self._staging) / name, run_dir / name)
        finally:
            self._staging = None
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=self.state.best_model_checkpoint,
                use_mtime=False,
            )
        self.accelerator.wait_for_everyone()

    def _save_own_state(self, folder: Path) -> None:
        every = self.plan.total * self.num_iterations
        torch.save(
            {
                "step": self._step,
                # Needed only between the iterations over one rollout.
                "buffer": self._buffered_inputs if self._step % every else None,
                "algorithm": self.algorithm.state_dict(),
                "sampled_tokens": self._sampled_tokens,
            },
            folder / STATE_FILE.format(rank=self.args.process_index),
        )

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / STATE_FILE.format(rank=self.args.process_index)
        if not path.is_file():
            raise ValueError(
                f"{checkpoint} has no {path.name}: it was not written by this trainer, or by a run "
                "with fewer processes"
            )
        state = torch.load(path, map_location=self.accelerator.device, weights_only=True)
        self._step = state["step"]
        self._buffered_inputs = state["buffer"]
        self._sampled_tokens = state["sampled_tokens"]
        self.algorithm.load_state_dict(state["algorithm"])
        if self._buffered_inputs is not None:
            self._find_idle(self._buffered_inputs)


def _publish(staged: Path, final: Path) -> None:
    """Move a finished folder to its place; one that stands there already is replaced."""
    for file in staged.rglob("*"):
        if file.is_file():
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())
    old = final.with_name(f".{final.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        os.replace(final, old)
    os.replace(staged, final)
    shutil.rmtree(old, ignore_errors=True)




def _rewards_come_from_the_environment(**_: Any) -> list[float]:
    """TRL wants a reward function; the seam replaces the stage that would call it."""
    raise AssertionError("TRL asked for a reward: its _prepare_inputs was not replaced")
