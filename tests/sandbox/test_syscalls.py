"""The tables of system calls beside the headers of the kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_marl_envs.sandbox.jail import syscalls

HEADERS = {
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
}
ALIASES = {"newfstatat": "fstatat"}  # the generic table's name


@pytest.mark.parametrize("name", list(HEADERS))
def test_numbers_agree_with_the_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip(f"{HEADERS[name]} is not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[name].read_text())
    numbers = {call: int(number) for call, number in found}
    table = syscalls.ARCHITECTURES[name]
    for call, number in {**table.allowed, **table.zygote, **table.guarded}.items():
        assert numbers.get(call, numbers.get(ALIASES.get(call, call))) == number, call


def test_only_the_zygote_may_fork_wait_or_change_user() -> None:
    for table in syscalls.ARCHITECTURES.values():
        assert not table.allowed.keys() & {*table.zygote, *table.guarded}
        assert not table.allowed.keys() & {"execve", "socket", "kill", "ptrace", "bpf", "mount"}
