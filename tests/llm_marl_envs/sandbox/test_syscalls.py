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
# Pairs copied by hand from the kernel's arch/x86/entry/syscalls/syscall_64.tbl and
# include/uapi/asm-generic/unistd.h, for machines without headers.
KNOWN = {
    "x86_64": "read 0 close 3 mmap 9 rt_sigaction 13 ioctl 16 socketpair 53 clone 56 wait4 61 "
    "fcntl 72 getdents64 217 exit_group 231 tgkill 234 openat 257 prlimit64 302 clone3 435",
    "aarch64": "fcntl 25 ioctl 29 openat 56 close 57 getdents64 61 read 63 write 64 exit_group 94 "
    "futex 98 tgkill 131 rt_sigaction 134 prctl 167 getpid 172 socketpair 199 clone 220 mmap 222 "
    "mprotect 226 wait4 260 prlimit64 261 getrandom 278 clone3 435 landlock_restrict_self 446",
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_known_numbers(name: str) -> None:
    table = syscalls.ARCHITECTURES[name]
    numbers = {**table.allowed, **table.zygote, **table.guarded}
    words = KNOWN[name].split()
    for call, number in zip(words[::2], words[1::2], strict=True):
        assert numbers[call] == int(number), call
    assert len(set(numbers.values())) == len(numbers)
    assert table.audit == {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[name]


@pytest.mark.parametrize("name", list(HEADERS))
def test_numbers_agree_with_the_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip(f"{HEADERS[name]} is not installed")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[name].read_text())
    numbers = {call: int(number) for call, number in defined}
    table = syscalls.ARCHITECTURES[name]
    for call, number in {**table.allowed, **table.zygote, **table.guarded}.items():
        assert numbers.get(call, numbers.get(ALIASES.get(call, call))) == number, call


def test_only_the_zygote_may_fork_wait_or_change_user() -> None:
    for table in syscalls.ARCHITECTURES.values():
        assert not table.allowed.keys() & {*table.zygote, *table.guarded}
        assert not table.allowed.keys() & {"execve", "socket", "kill", "ptrace", "bpf", "mount"}
