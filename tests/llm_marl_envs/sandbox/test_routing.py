"""The judge's side of the wire, fed with messages that only a hostile program would send."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from llm_marl_envs.sandbox.jail.examiner import _Run
from llm_marl_envs.sandbox.jail.routing import Failure, Router
from llm_marl_envs.sandbox.jail.units import split
from llm_marl_envs.sandbox.jail.wire import Channel

JOB = {"programs": ["helper", "main"], "exports": {"helper": ["aux"]}, "entry": "solve"}
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(QUICK, max_examples=10_000)

NUMBERS = st.sampled_from([0, -1, 7, 1 << 70, float("inf"), float("nan"), "0", None])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1 << 70, 1e308, float("inf"), float("nan"), "", "aux", "solve", "x" * 70]),
)
TAGS = "i t d s f b B c r o q D F g ymd at hms span y x lent"
tags = st.sampled_from(TAGS.split())
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(tags, inner, min_size=1, max_size=2)
    ),
    max_leaves=6,
)
empty = st.just([])
rest = {"args": empty | values, "kwargs": empty | values}
messages = st.one_of(
    values,
    st.fixed_dictionaries({"lent": NUMBERS | values, **rest}),
    st.fixed_dictionaries({"request": st.just("aux") | leaves, **rest}),
    st.fixed_dictionaries({"id": st.just(1), "value": values}),
    st.fixed_dictionaries(
        {},
        optional={
            "id": values | st.just(1),
            "value": values,
            "raised": values | st.lists(st.sampled_from(["SystemExit", "KeyError", "A"])),
            "message": values,
            "request": values | st.just("aux"),
            "lent": values | st.just(0),
            "args": values | st.just([]),
            "kwargs": values | st.just([]),
            "ready": values | st.just(True),
            "names": values | st.just(["aux", "solve"]),
            "failed": values | st.just("run"),
            "line": values,
            "column": values,
        },
    ),
)


def peers() -> tuple[list[socket.socket], list[socket.socket]]:
    pairs = [socket.socketpair() for _ in JOB["programs"]]
    return [a for a, _ in pairs], [b for _, b in pairs]


def fed(helper: list[Any], main: list[Any]) -> tuple[list[Channel], list[socket.socket]]:
    """Channels of the judge behind which two programs have said all that they will ever say."""
    ours, theirs = peers()
    for sock, messages in zip(theirs, (helper, main), strict=True):
        for message in messages:
            Channel(sock.fileno()).send(message)
        sock.shutdown(socket.SHUT_WR)
    return [Channel(sock.fileno()) for sock in ours], [*ours, *theirs]


def check_exchange(helper: list[Any], main: list[Any]) -> None:
    channels, sockets = fed(helper, main)
    router = Router(JOB, channels)
    router.functions = {"helper": ["aux"], "main": ["solve"]}
    router.lend(len)
    try:
        reply = router.exchange("main", "solve", [], [])
        assert type(reply) is dict
        assert reply["id"] == 1
    except Failure:
        pass  # charged to a program
    finally:
        for sock in sockets:
            sock.close()


def check_run(helper: list[Any], main: list[Any]) -> None:
    """Whatever is said, a report comes of it, and nothing but the right values passes."""
    plan = split("try:\n    assert solve(1) == 'right' * 3\nexcept KeyError:\n    raise\n", "solve")
    channels, sockets = fed(helper, main)
    report = _Run(plan, JOB, channels).run()
    assert report["status"] not in (None, "pass", "infra_error")
    for sock in sockets:
        sock.close()


@pytest.mark.parametrize(("error", "status"), [(MemoryError, "memory"), (KeyError, "protocol")])
def test_an_error_of_the_judge_itself_is_a_verdict(error: type[Exception], status: str) -> None:
    class Weak(_Run):
        def load(self, program: str) -> None:
            raise error

    channels, sockets = fed([], [])
    report = Weak(split("assert solve(1) == 2", "solve"), JOB, channels).run()
    assert (report["status"], report["author"]) == (status, "main")
    assert report["outcomes"] == [[False, "", 0, False, False]]
    for sock in sockets:
        sock.close()


@QUICK
@example([], [{"lent": float("inf"), "args": [], "kwargs": []}])
@given(st.lists(messages, max_size=4), st.lists(messages, max_size=4))
def test_exchanges(helper: list[Any], main: list[Any]) -> None:
    check_exchange(helper, main)


@QUICK
@given(st.lists(messages, max_size=4), st.lists(messages, max_size=4))
def test_runs(helper: list[Any], main: list[Any]) -> None:
    check_run(helper, main)


@QUICK
@given(st.lists(messages, max_size=3), st.lists(messages, max_size=3))
def test_runs_of_programs_that_loaded(helper: list[Any], main: list[Any]) -> None:
    loaded = {"ready": True, "names": ["aux", "solve"]}
    check_run([loaded, *helper], [loaded, *main])


@pytest.mark.long
@LONG
@given(st.lists(messages, max_size=4), st.lists(messages, max_size=4))
def test_runs_at_length(helper: list[Any], main: list[Any]) -> None:
    loaded = {"ready": True, "names": ["aux", "solve"]}
    check_exchange(helper, main)
    check_run([loaded, *helper], [loaded, *main])
