"""What is refused before a page is asked for it, and the policy that every answer carries."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llm_marl_envs.core.extras import Extra

with Extra("app", "the app"):
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response

MOST_BYTES = 1_000_000
"""Of a form that is sent."""
MOST_FIELDS = 1000
LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""As `Host` names this machine. Other names could be made to lead here (DNS rebinding)."""
FOREIGN = "Another site's page asked for this. Begin at the app's first page, or type the address."
Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def guarded(hosts: Sequence[str], frames: Sequence[str]) -> list[Middleware]:
    """The guards of a program.

    Args:
        hosts: names that it answers to, "*" any.
        frames: origins whose pages may show it in a frame.
    """
    return [
        Middleware(Headed, frames=frames),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
        Middleware(SameSite),
    ]


class Headed:
    """Puts the policy of pages into every answer."""

    def __init__(self, app: Asgi, frames: Sequence[str]) -> None:
        self.app = app
        ancestors = " ".join(frames) or "'none'"
        self.policy = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
            f"frame-ancestors {ancestors}"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""

        async def headed(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = self.policy
                headers["X-Content-Type-Options"] = "nosniff"
                # Addresses hold keys. "no-referrer" would make browsers hide `Origin`, too.
                headers["Referrer-Policy"] = "same-origin"
                headers["Cache-Control"] = "no-store"
            await send(message)

        await self.app(scope, receive, headed)


class SameSite:
    """Refuses what another site's page sends or asks for; its links may lead to the first page."""

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] == "http" and foreign(Headers(scope=scope)):
            first = scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
            if not first:
                await Response(FOREIGN, 403)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def foreign(headers: Headers) -> bool:
    """Whether a browser says that another site's page is behind a request.

    `Sec-Fetch-Site` is "none" where a person types an address. Browsers without it send `Origin`
    with forms, and `Referer` with most of what a page asks for.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        origin = headers.get("referer")
    if origin is not None:
        sender = re.split("[/?#]", origin.partition("://")[2])[0]
        if sender != headers.get("host"):
            return True
    return site not in (None, "same-origin", "none")


async def posted(request: Request) -> dict[str, str]:
    """The fields of a form; of a name that stands twice the last.

    Raises:
        HTTPException: it is too large or cut off, or nobody says how large.
    """
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise HTTPException(411, "The length of the form is missing.")
    if int(length) > MOST_BYTES:
        raise HTTPException(413, f"The text is too long: at most {MOST_BYTES} bytes.")
    try:
        form = await request.form(max_files=0, max_fields=MOST_FIELDS)
    except ClientDisconnect as error:  # nobody reads the answer, and the log needs no traceback
        raise HTTPException(400, "The form was cut off.") from error
    return {key: value for key, value in form.items() if isinstance(value, str)}
