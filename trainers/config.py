"""Every setting of a training run, in one dataclass derived from TRL's `GRPOConfig`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_type_hints

import torch
from pydantic import Field
from trl.trainer.grpo_config import GRPOConfig

from llm_marl_envs.core.checks import check_types
from llm_marl_envs.core.options import Positive, Share, declared_fields
from llm_marl_envs.core.records import Chance
from llm_marl_envs.play.rollout import Context
from llm_marl_envs.tools.native import ToolFormat
from trainers.algorithms import chosen_algorithm
from trainers.algorithms.base import Baseline, Scale
from trainers.batch.drift import TokenMode
from trainers.batch.packing import Loss
from trainers.batch.returns import make_returns, setting_of
from trainers.engines.registry import engine_class
from trainers.recipes import settle
from trainers.schedules.schedules import make_schedules, settings_of
from trainers.trackers.asked import check_trackers
from trainers.weights.team_model import WeightMode, check_policy_names

AtLeastOne = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
BIASED = "training samples from the distribution that it scores, or the gradient is biased"
SPLIT = "it is taken over a micro-batch, so the split would change the gradient"
NO_SHARDS = "set shard_weights, which divides the weights over the processes of torchrun by FSDP2"
NO_DEEPSPEED = (
    "it keeps the gradients to itself and clips them by one norm, so policies could not be clipped "
    f"and left idle on their own; {NO_SHARDS}"
)
NOT_READ = {
    "per_device_train_batch_size": "set rows_per_micro_batch",
    "gradient_accumulation_steps": "it follows from the other sizes",
    "steps_per_generation": "one update is one generation",
    "generation_batch_size": "set tasks_per_update and num_generations",
    "generation_kwargs": BIASED,
    **dict.fromkeys(("top_p", "top_k", "min_p", "repetition_penalty"), BIASED),
    **dict.fromkeys(("entropy_coef", "use_adaptive_entropy", "top_entropy_quantile"), SPLIT),
    "fsdp": NO_SHARDS,
    "deepspeed": NO_DEEPSPEED,
    **dict.fromkeys(("use_vllm", "vllm_mode", "vllm_server_base_url"), "set engine"),
    "use_transformers_continuous_batching": "it serves all rows with one adapter; set engine",
    "sync_ref_model": "the reference is each policy's own start",
    "log_completions": "set transcript_every",
    "save_on_each_node": "nodes share output_dir, and one process writes",
    "cache_implementation": "leave it out",
    "neftune_noise_alpha": BIASED,
    "reward_weights": "rewards come from the environment",
    "multi_objective_aggregation": "rewards come from the environment",
    "pad_to_multiple_of": "rows are padded to the longest of their micro-batch",
    "shuffle_dataset": "tasks are visited in a new order each epoch",
    "num_generations_eval": "evaluation plays one episode per task",
    "load_best_model_at_end": "load the checkpoint you want with load_team",
    "push_to_hub": "it would send the whole folder, in public; `llm-marl push-team` sends a team",
    "hub_token": "run files are copied into manifests and trackers; `hf auth login` or HF_TOKEN",
    "fp16": "its scaler cannot follow gradients that are clipped per policy; leave it off, or set "
    "bf16 on a GPU (a processor without AVX-512 is seven times slower in bf16)",
}
"""Settings of TRL and transformers that stay at their defaults: why, or what to do instead."""
REFUSED = {
    ("loss_type", "bnpo"): SPLIT,
    **dict.fromkeys(
        (("vllm_importance_sampling_mode", f"sequence_{way}") for way in ("truncate", "mask")),
        "a row is all turns of an episode, and its ratio is the product over them",
    ),
}
"""Settings and values of TRL that are refused: why."""
WORDS: dict[str, dict[bool, str]] = {
    "save_strategy": {False: "no"},
    "eval_strategy": {False: "no"},
    "logging_strategy": {False: "no"},
    "include_num_input_tokens_seen": {False: "no"},
    "report_to": {False: "none"},
    "scale_rewards": {False: "none", True: "group"},
}
"""Settings that are words -> what true or false means: YAML reads a bare `no` as false."""
RESUME = {"true": True, "yes": True, "false": None, "no": None, "": None, "none": None}
"""`resume_from_checkpoint` as people write it; anything else is the path of a checkpoint."""


@dataclass
class MAGRPOConfig(GRPOConfig):
    """Settings of `MAGRPOTrainer`; everything of TRL's `GRPOConfig` applies unless refused below.

    Sizes are `num_generations` (G), `tasks_per_update` (P) and `rows_per_micro_batch`; batch sizes
    and gradient accumulation are derived from them. `bf16` is off on a CPU, where TRL turns it on:
    bf16 AdamW at small learning rates rounds most updates away.

    Raises:
        ValueError: a value out of range, or a setting of TRL that cannot be right here.
        TypeError: a value of the wrong type.
        ImportError: a tracker in `report_to` that is not installed.
    """

    _given = frozenset[str]()  # no field: what `__new__` was given
    algorithm: str | dict[str, Any] = "magrpo"
    """A name in trainers.algorithms, or a map of it and of the algorithm's own settings:
    {name: hysteretic, weight: 0.2}; or a recipe, which sets more (trainers.recipes)."""
    recipe: str | None = None
    """The recipe that `algorithm` named, kept here; 'cory (modified)' where the run differs."""
    num_generations: Annotated[int, Field(ge=2)] = 8  # type: ignore[assignment]
    """G: episodes of a task that are compared."""
    chance: Chance = "group"
    """Chance in an environment comes from the reset seed. 'group': the episodes of a task share it,
    so what is dealt to one is dealt to all; 'episode': each has its own, and a branch draws anew
    what is dealt after it. With a shared one an algorithm that looks at the best episode is less
    misled by luck."""
    max_update_tokens: AtLeastOne | None = None
    """Most tokens that an update may sample: of all seats, frozen ones too, with every
    branch. A run whose longest episodes could exceed it is refused; None: no limit."""
    max_tokens: AtLeastOne | None = None
    """Tokens after which a run ends: all that are sampled, of all seats and branches,
    since it began (`num_tokens` in the log). It ends after the update that reaches this; with
    `max_steps`, after whichever comes first. Alone it takes the place of `num_train_epochs`, and
    the learning rate must be constant, because nobody knows the number of updates. None: no
    limit."""
    weights: WeightMode | None = None
    """'shared' (one policy for all seats), 'adapters' (one LoRA adapter each) or 'separate' (one
    model each); None: adapters where a peft_config is given, else shared."""
    policies: dict[str, str] | None = None
    """agent -> policy name, where seats share one; None: each its own."""
    frozen: list[str] | None = None
    """Seats that play with the weights they began with, untrained."""
    tasks_per_update: AtLeastOne = 4
    """P: tasks of one update, over all processes."""
    rows_per_micro_batch: AtLeastOne = 32
    """Most rows of one forward and backward pass."""
    engine: str | dict[str, Any] = "generate"
    """Who samples: 'generate' (transformers, the trainer's own weights), or a map of a name in
    trainers.engines and settings: {name: vllm, urls: ["http://localhost:8000"]}."""
    shard_weights: bool = False
    """Divide weights, gradients and optimiser state over the processes (FSDP2), for models that do
    not fit one device. The engine 'generate' puts all weights together on every process while it
    samples; a server does not need that."""
    sampling_batch_size: AtLeastOne | None = None
    """Most rows of one generate call; None: all."""
    share_prompts: bool = True
    """Compute what rows begin with once, in sampling and in the update, and keep what a row has
    read for its next turn. False: every row whole, as often as it is read."""
    kept_rows_mb: Annotated[int, Field(ge=0)] = 512
    """Most MiB of keys and values that the engine 'generate' keeps for next turns."""
    compare_sampling: bool = False
    """Score each token of 'generate' once more before the update, and compare more strictly than
    every first pass does; other engines always are compared so."""
    rollout_chunks: AtLeastOne = 1
    """Parts into which the episodes of an update are divided: one is sampled while the others'
    programs run. Pays where both are slow."""
    discount: Share = 1.0
    """gamma of the returns; counts an agent's own actions, and turn k is not weighed by
    gamma^k (see trainers.algorithms.magrpo)."""
    baseline: Baseline = "leave_one_out"
    """What magrpo subtracts: 'leave_one_out' (the mean return of the group's other episodes, at
    every turn; no bias) or 'mean' (the paper's at first turns: the own episode is in the mean,
    which shrinks their gradient by (G - 1) / G and later turns' not, so that the sum over turns is
    not proportional to the gradient), 'none' (MAREINFORCE) or 'max' (MAREMAX)."""
    credit: Literal["team", "own"] = "team"
    """'team': every agent gets the mean reward of the turn; 'own': its own."""
    returns: str | dict[str, Any] = "discounted"
    """What a turn is credited with: 'discounted' (`credit`'s rewards to come, with `discount`) or,
    for debates, 'maporl' (who was right when, instead of these; see trainers.batch.shaping). A map
    has settings: {name: maporl, bonus: potential, discount: 0.3, scale: 0.5}."""
    schedules: dict[str, Any] | None = None
    """What changes from update to update, a map of 'exchange', 'population', 'in_turn',
    'horizon', 'difficulty', 'pool' and 'sequential' to their settings; see
    trainers.schedules.schedules."""
    tool_format: ToolFormat | dict[str, ToolFormat] = "line"
    """How agents call tools: 'line', or 'native' in the format of their models' chat templates; or
    a map of seats or roles to these, 'line' for others. See docs/howto/tools.md."""
    context: Context = "append"
    """Chat of environments that send bare strings: 'append' or 'fresh'."""
    max_turns: AtLeastOne | None = None
    """Most turns per agent of an environment that does not say; sizes micro-batches where each turn
    is a row of its own (context='fresh')."""
    policy_learning_rates: dict[str, NotNegative] | None = None
    """policy -> learning rate, where it differs."""
    shuffle_rewards: bool = False
    """A control: deal each group's rewards to its episodes at random."""
    random_partner: bool = False
    """A control: pay each trained seat what its text earns beside scripted experts of a convention
    drawn uniformly for each episode and seat. One turn, all at once."""
    transcript_every: Annotated[int, Field(ge=0)] = 10
    """Write sampled episodes every so many updates; 0: never."""
    eval_tasks: AtLeastOne = 32
    """Tasks of one evaluation during training."""
    max_failed_share: Share = 0.05
    """Largest share of episodes whose environment raised, over the last 20 updates;
    above it the run stops with a checkpoint. A single one is borne unless this is 0."""

    # Settings of TRL that accept less here.
    learning_rate: NotNegative = GRPOConfig.learning_rate
    """Of every policy that `policy_learning_rates` does not name."""
    num_iterations: AtLeastOne = GRPOConfig.num_iterations
    """How often an update learns from its episodes."""
    temperature: Positive = GRPOConfig.temperature
    """Of sampling, in training and in evaluations."""
    importance_sampling_level: Literal["token", "sequence"] = "token"  # type: ignore[assignment]
    """What the ratio of new to old probability is taken over. See TRL."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = GRPOConfig.seed
    """Of tasks, sampling, adapters and all else that is drawn."""

    # Defaults that differ from TRL's, with the reason.
    gradient_checkpointing: bool = False
    """It trades time for memory that small models do not need."""
    loss_type: Loss = "dr_grpo"  # type: ignore[assignment]
    """The paper's sum over tokens, up to a constant. See TRL; 'bnpo' is refused."""
    scale_rewards: Scale = "none"  # type: ignore[assignment]
    """'none' or 'group'; the paper does not divide by a standard deviation."""
    logging_nan_inf_filter: bool = False
    """A NaN must be seen; it stops training here."""
    top_p: float = 1.0
    """1, as `top_k` is 0: log-probs are those of the untruncated distribution, so truncated
    sampling would bias the gradient."""
    top_k: int = 0
    vllm_importance_sampling_mode: TokenMode = "token_truncate"  # type: ignore[assignment]
    """How an engine that is not exact is corrected for, per token: 'token_truncate' (ratios are at
    most `vllm_importance_sampling_clip_max`) or 'token_mask' (tokens beyond it count nothing). The
    'sequence_' modes of TRL are refused: a row is all turns of an episode, and its ratio a product
    over them."""
    max_completion_length: AtLeastOne = 256  # type: ignore[assignment]
    """Most tokens of one *turn*; no None."""
    logging_steps: float = 1
    save_strategy: str = "no"
    report_to: str | list[str] | None = "none"
    """Trackers beside the run's own log: tensorboard, trackio, wandb, mlflow and others of
    transformers; docs/trackers.md says what appears where. Not 'all'."""
    project: str = "llm-marl"
    """What trackers file runs under."""

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Notes which settings are given: a recipe sets the others alone."""
        made = super().__new__(cls)
        names = [one.name for one in dataclasses.fields(cls)]
        made._given = frozenset({*names[: len(args)], *given})
        return made

    def __post_init__(self) -> None:
        settle(self, self._given)
        self._refuse_what_is_not_read()
        self._read_as_yaml_means()
        self._check_declared()
        if self.bf16 is None and (self.use_cpu or not torch.cuda.is_available()):
            self.bf16 = False
        check_policy_names((self.policies or {}).values())  # before any model is loaded
        engine_class(self.engine)
        self.algorithm = chosen_algorithm(self.algorithm)
        self.returns = setting_of(make_returns(self.returns))
        self.schedules = settings_of(make_schedules(self.schedules))
        self._check_control()
        check_trackers(self.report_to)
        named = [self.report_to] if isinstance(self.report_to, str) else self.report_to or ()
        self._read_token_budget()
        # TRL demands whole groups per generation batch; the trainer sets the sizes later.
        sizes = self.per_device_train_batch_size, self.per_device_eval_batch_size
        self.per_device_train_batch_size = self.num_generations
        self.per_device_eval_batch_size = self.num_generations
        try:
            super().__post_init__()
        except (ValueError, TypeError) as error:  # what TRL and transformers refuse
            raise ValueError(f"settings of the trainer: {error}") from error
        self.per_device_train_batch_size, self.per_device_eval_batch_size = sizes
        self._check_after()
        # transformers adds what it finds in the environment.
        self.report_to = [one for one in self.report_to or () if one in named]
        if self.ddp_find_unused_parameters is None:
            # Each micro-batch uses one policy's weights; without this DDP waits for the others'.
            self.ddp_find_unused_parameters = True

    def _read_token_budget(self) -> None:
        """Tokens alone say when a run ends: an update samples one at least for each policy."""
        if self.max_tokens is None or self.max_steps > 0:
            return
        if self.lr_scheduler_type != "constant":
            raise ValueError(
                f"lr_scheduler_type={str(self.lr_scheduler_type)!r:.200} with max_tokens alone: "
                "that rate falls over a number of updates, which nobody knows; set "
                "lr_scheduler_type='constant', or max_steps as well"
            )
        for name in ("save_steps", "eval_steps", "logging_steps"):
            value = getattr(self, name)
            if value is not None and 0 < value < 1:
                raise ValueError(
                    f"{name}={value} with max_tokens alone: a share of a number of updates, which "
                    "nobody knows; expected a number of updates, or set max_steps as well"
                )
        self.max_steps = self.max_tokens * self.num_iterations

    @property
    def place_model_on_device(self) -> bool | None:
        """Not before it is divided, or it might not fit; a hook of transformers."""
        return False if self.shard_weights else None

    def _read_as_yaml_means(self) -> None:
        """True and false as the words that they stand for."""
        for name, words in WORDS.items():
            value = getattr(self, name)
            if isinstance(value, bool):
                setattr(self, name, words.get(value, value))
        resume: Any = self.resume_from_checkpoint
        self.resume_from_checkpoint = RESUME.get(str(resume).lower(), resume)

    def accumulate(self, micro_batches: int) -> None:
        """Set TRL's sizes: one update is one generation and one optimiser step."""
        self.per_device_train_batch_size = self.rows_per_micro_batch
        self.gradient_accumulation_steps = micro_batches
        self.steps_per_generation = micro_batches
        self.generation_batch_size = self.rows_per_micro_batch * micro_batches * self.world_size

    def take_init_kwargs(self) -> dict[str, Any]:
        """What `from_pretrained` is to get; taken, because TRL would warn that it ignores it."""
        given: Any = self.model_init_kwargs or {}  # transformers has parsed JSON text by now
        given = {"trust_remote_code": self.trust_remote_code, **given}
        self.model_init_kwargs = None
        return given

    def _check_declared(self) -> None:
        """Ranges and choices as the fields declare them; of all others the type alone."""
        declared = declared_fields(type(self))
        declared(**{name: getattr(self, name) for name in declared.model_fields})
        hints = {**get_type_hints(type(self)), "resume_from_checkpoint": bool | str | None}
        others = {name: hint for name, hint in hints.items() if name not in declared.model_fields}
        check_types("", vars(self), others)
        if self.max_steps < -1:
            raise ValueError(
                f"max_steps={self.max_steps}: expected a number of updates, or -1 for as many as "
                "num_train_epochs says"
            )
        if not self.output_dir:
            raise ValueError("output_dir is empty: expected a folder")

    def _check_after(self) -> None:
        """What can be checked once transformers has read JSON texts and names."""
        for name in ("chat_template_kwargs", "model_init_kwargs"):
            value: Any = getattr(self, name)
            if value is not None and not isinstance(value, dict):
                raise ValueError(f"{name}={value!r:.200}: expected a map")
        if isinstance(self.model_init_kwargs, dict) and "token" in self.model_init_kwargs:
            raise ValueError(
                "model_init_kwargs: 'token' cannot stand in a run file, which is copied into "
                "manifests and trackers; use `hf auth login` or HF_TOKEN"
            )
        if self.save_strategy == "best" and not self.metric_for_best_model:
            raise ValueError(
                "save_strategy='best' needs metric_for_best_model, e.g. eval_reward or eval_success"
            )

    def _check_control(self) -> None:
        """Refuse a random partner beside what takes its rewards away again."""
        if not self.random_partner:
            return
        if self.shuffle_rewards:
            raise ValueError(
                "random_partner and shuffle_rewards are two controls: choose one of them"
            )
        if not make_returns(self.returns).reads_rewards:
            raise ValueError(
                f"random_partner with returns={self.returns!r}: these are not made of the rewards "
                "that it pays; leave it at 'discounted'"
            )

    def _refuse_what_is_not_read(self) -> None:
        """A setting that would be ignored, or cannot be right here, is an error."""
        defaults = {f.name: f.default for f in dataclasses.fields(GRPOConfig)}
        for name, reason in NOT_READ.items():
            value, default = getattr(self, name), defaults[name]
            if (value or None) != (default or None):  # off is off, however it is written
                shown = "..." if name.endswith("_token") else repr(value)
                raise ValueError(
                    f"{name}={shown} cannot be set here, leave it at {default!r:.200}: {reason}"
                )
        for (name, value), reason in REFUSED.items():
            if getattr(self, name) == value:
                raise ValueError(f"{name}={value!r:.200} cannot be set here: {reason}")
