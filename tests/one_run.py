"""A short training run as a program, for the tests of processes and kills.

python one_run.py FOLDER [field=value ...]     prints one line of JSON per rank
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from typing import Any

import yaml
from models import make_trainer, weights
from test_trainer import Lower


class Uneven(Lower):
    """Ends the episode early where somebody wrote an "e", so that episodes differ in length."""

    def play(self, joint_action: Any) -> Any:
        import dataclasses

        ended = any("e" in text for text in joint_action.values())
        return dataclasses.replace(super().play(joint_action), ended=ended)


def main() -> None:
    warnings.simplefilter("ignore")
    folder, *pairs = sys.argv[1:]
    changes = {key: yaml.safe_load(value) for key, _, value in (p.partition("=") for p in pairs)}
    resume = changes.pop("resume", None)
    trainer = make_trainer(folder, Uneven, **changes)
    trainer.train(resume_from_checkpoint=resume)
    values = weights(trainer)
    digest = hashlib.sha256(b"".join(v.numpy().tobytes() for v in values.values())).hexdigest()
    result = {
        "rank": int(os.environ.get("RANK", "0")),
        "digest": digest,
        "step": trainer.state.global_step,
        "sums": {policy: float(v.double().abs().sum()) for policy, v in values.items()},
    }
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
