"""Serves the pages, on this machine alone unless told otherwise."""

from __future__ import annotations

import ipaddress
import socket

from llm_marl_envs.app.guards import LOCAL
from llm_marl_envs.app.site import Site
from llm_marl_envs.core.extras import Extra

with Extra("app", "the app"):
    import uvicorn


def launch(site: Site, host: str = "127.0.0.1", port: int = 7860) -> None:
    """Serve the pages until interrupted.

    Args:
        site: the pages.
        host: the address to bind; one that is not this machine's alone lets others in.
        port: 0 takes a free one.

    Raises:
        ValueError: the port is taken or none, or the address is none of this machine's.
    """
    try:
        bound = socket.create_server((host, port), family=_family(host))
    except OSError as error:
        mend = "choose another --host or --port"
        raise ValueError(f"{host}, port {port}: {error.strerror}; {mend}") from error
    except OverflowError as error:
        raise ValueError(f"port {port}: expected --port 0 to 65535") from error
    port = bound.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{port}  (Ctrl-C ends it)", flush=True)
    config = uvicorn.Config(
        site.program(names_of(host)), log_level="warning", timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[bound])


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def names_of(host: str) -> tuple[str, ...]:
    """The names that a page at this address answers to; "*", any, where others are let in."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return tuple(dict.fromkeys((*LOCAL, host))) if local else ("*",)
