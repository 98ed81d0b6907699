"""What we rely on in TRL and transformers; says what moved when an upgrade changes it."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import transformers
import trl
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.batch.packing import Loss
from trainers.trainer import MAGRPOTrainer

OVERRIDDEN = (
    "_prepare_inputs",
    "compute_loss",
    "create_optimizer",
    "get_train_dataloader",
    "evaluate",
    "train",
    "_clip_grad_norm",
    "_save",
    "_save_checkpoint",
    "_get_output_dir",
    "_load_from_checkpoint",
    "_load_optimizer_and_scheduler",
    "create_model_card",
    "_send_telemetry",
)
CALLED = ("_get_per_token_logps_and_entropies", "_compute_loss", "get_decay_parameter_names")


def source(method: str) -> str:
    return inspect.getsource(getattr(GRPOTrainer, method))


def test_the_pinned_version_is_installed():
    assert re.match(r"1\.16\.", trl.__version__), (
        f"trl {trl.__version__}: read the seam again (this file), then widen the pin"
    )


def test_what_we_override_and_call_is_still_there():
    for name in (*OVERRIDDEN, *CALLED):
        assert hasattr(GRPOTrainer, name), f"TRL or transformers no longer has {name}"
    for name in OVERRIDDEN:
        ours = inspect.signature(getattr(MAGRPOTrainer, name))
        theirs = inspect.signature(getattr(GRPOTrainer, name))
        if name not in ("train",):
            assert len(ours.parameters) == len(theirs.parameters), f"{name}{theirs} changed"


def test_the_training_step_asks_prepare_inputs_for_each_micro_batch():
    step = inspect.getsource(transformers.Trainer.training_step)
    assert "self._prepare_inputs(inputs)" in step
    assert "self.compute_loss(" in step
    assert "self._step += 1" in source("training_step"), "TRL no longer counts micro-batches"


def test_the_loss_reads_the_keys_we_write_and_divides_as_we_undo():
    loss = source("_compute_loss")
    for key in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages"):
        assert f'inputs["{key}"]' in loss, f"TRL's loss no longer reads {key}"
    for key in ("tool_mask", "old_per_token_logps", "ref_per_token_logps"):
        assert f'"{key}"' in loss, f"TRL's loss no longer reads {key}"
    assert "if advantages.dim() == 1" in loss, "advantages of shape (B, T) are no longer accepted"
    for name in get_args(Loss):
        assert f'"{name}"' in loss, f"TRL dropped the loss {name}"
    assert "per_token_loss.size(0) * self.max_completion_length" in loss, "dr_grpo divides anew"
    assert "self.current_gradient_accumulation_steps" in loss, "TRL no longer averages over steps"
    assert 'inputs["num_items_in_batch"]' in loss, "token losses have another normaliser"


def test_checkpoints_go_where_get_output_dir_says():
    save = inspect.getsource(transformers.Trainer._save_checkpoint)
    assert "self._get_output_dir(trial=trial)" in save
    assert "self._get_output_dir(trial=trial)" in source("_save_checkpoint")


def test_gradients_are_clipped_and_stepped_through_our_methods():
    epoch = inspect.getsource(transformers.Trainer._run_epoch)
    assert "self._clip_grad_norm(model)" in epoch
    assert "self.optimizer.step()" in epoch


def test_the_loss_multiplies_by_the_ratio_of_an_engine():
    loss = source("_compute_loss")
    assert "self.use_vllm and self.vllm_importance_sampling_correction" in loss
    assert 'per_token_loss * inputs["importance_sampling_ratio"]' in loss
