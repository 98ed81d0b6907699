"""Runs model-written Python in confined processes, fast, believing nothing it says.

Owns the public names; see `pool` for the pool, `records` for what goes in and out, `layers` for
confinement, and docs/sandbox.md for what it protects from and what it does not.
"""

from __future__ import annotations

from .budget import Budget
from .jail.codec import Opaque
from .jail.contract import Contract
from .jail.replacements import Replacement
from .jail.units import units_of
from .layers import LAYERS, Layer, doctor, verdict
from .pool import Sandbox, default_sandbox
from .records import (
    STATUSES,
    Cost,
    HelperCall,
    InfraError,
    Limits,
    SandboxError,
    SandboxUnavailable,
    Status,
    TestOutcome,
    Verdict,
)

__all__ = [
    "LAYERS",
    "STATUSES",
    "Budget",
    "Contract",
    "Cost",
    "HelperCall",
    "InfraError",
    "Layer",
    "Limits",
    "Opaque",
    "Replacement",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Status",
    "TestOutcome",
    "Verdict",
    "default_sandbox",
    "doctor",
    "units_of",
    "verdict",
]
