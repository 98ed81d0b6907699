"""System calls a confined process may make, with their numbers on x86_64 and aarch64.

Owns names and numbers only; `seccomp` makes a filter of them. Sources: Linux
arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

# Calls that reach the file system by a path. Without Landlock they are left out of the filter.
_PATH_CALLS = """
open openat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents
getdents64 getcwd
"""
PATH_CALLS = frozenset(_PATH_CALLS.split())

_X86_64 = """
read 0 write 1 open 2 close 3 stat 4 fstat 5 lstat 6 poll 7 lseek 8 mmap 9 mprotect 10 munmap 11
brk 12 rt_sigaction 13 rt_sigprocmask 14 rt_sigreturn 15 pread64 17 readv 19 writev 20
access 21 pipe 22 select 23 sched_yield 24 mremap 25 madvise 28 dup 32 dup2 33 nanosleep 35
getitimer 36 alarm 37 setitimer 38 getpid 39 sendto 44 recvfrom 45 sendmsg 46 recvmsg 47 exit 60
uname 63 ftruncate 77 getdents 78 getcwd 79 readlink 89 gettimeofday 96 getrlimit 97
getrusage 98 sysinfo 99 times 100 getuid 102 getgid 104 geteuid 107 getegid 108 getppid 110
rt_sigpending 127 sigaltstack 131 getpriority 140 sched_getparam 143 sched_getscheduler 145
gettid 186 time 201 futex 202 sched_getaffinity 204 epoll_create 213 getdents64 217
restart_syscall 219 clock_gettime 228 clock_getres 229 clock_nanosleep 230 exit_group 231
epoll_wait 232 epoll_ctl 233 openat 257 newfstatat 262 readlinkat 267 faccessat 269 pselect6 270
ppoll 271 set_robust_list 273 epoll_pwait 281 eventfd2 290 epoll_create1 291 dup3 292 pipe2 293
preadv 295 getrandom 318 membarrier 324 statx 332 rseq 334 faccessat2 439
"""

_AARCH64 = """
getcwd 17 eventfd2 19 epoll_create1 20 epoll_ctl 21 epoll_pwait 22 dup 23 dup3 24
ftruncate 46 faccessat 48 openat 56 close 57 pipe2 59 getdents64 61 lseek 62 read 63 write 64
readv 65 writev 66 pread64 67 preadv 69 pselect6 72 ppoll 73 readlinkat 78 newfstatat 79 fstat 80
exit 93 exit_group 94 futex 98 set_robust_list 99 nanosleep 101 getitimer 102 setitimer 103
clock_gettime 113 clock_getres 114 clock_nanosleep 115 sched_getscheduler 120 sched_getparam 121
sched_getaffinity 123 sched_yield 124 restart_syscall 128 sigaltstack 132 rt_sigaction 134
rt_sigprocmask 135 rt_sigpending 136 rt_sigreturn 139 getpriority 141 times 153 uname 160
getrlimit 163 getrusage 165 gettimeofday 169 getpid 172 getppid 173 getuid 174 geteuid 175
getgid 176 getegid 177 gettid 178 sysinfo 179 sendto 206 recvfrom 207 sendmsg 211 recvmsg 212
brk 214 munmap 215 mremap 216 mmap 222 mprotect 226 madvise 233 getrandom 278 membarrier 283
statx 291 rseq 293 faccessat2 439
"""


@dataclass(frozen=True)
class Architecture:
    """Numbers of one architecture."""

    audit: int  # AUDIT_ARCH_* as seccomp reports it
    allowed: dict[str, int]
    zygote: dict[str, int]  # calls that only the zygote makes, and children before confinement
    guarded: dict[str, int]  # calls whose arguments are inspected
    high: int | None  # numbers from here on belong to another ABI (x32)


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


ARCHITECTURES = {
    "x86_64": Architecture(
        audit=0xC000003E,
        allowed=_table(_X86_64),
        zygote=_table(
            "wait4 61 pidfd_open 434 setgroups 116 setresgid 119 setresuid 117 prctl 157 "
            "close_range 436 landlock_restrict_self 446"
        ),
        guarded=_table(
            "clone 56 clone3 435 tgkill 234 prlimit64 302 socketpair 53 fcntl 72 ioctl 16"
        ),
        high=0x40000000,
    ),
    "aarch64": Architecture(
        audit=0xC00000B7,
        allowed=_table(_AARCH64),
        zygote=_table(
            "wait4 260 pidfd_open 434 setgroups 159 setresgid 149 setresuid 147 prctl 167 "
            "close_range 436 landlock_restrict_self 446"
        ),
        guarded=_table(
            "clone 220 clone3 435 tgkill 131 prlimit64 261 socketpair 199 fcntl 25 ioctl 29"
        ),
        high=None,
    ),
}


def current() -> Architecture | None:
    """The table of this machine, or None where there is none."""
    return ARCHITECTURES.get({"arm64": "aarch64"}.get(platform.machine(), platform.machine()))
