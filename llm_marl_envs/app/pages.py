"""Pages from their templates: those of the app, and the parts of reports that they show."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from llm_marl_envs import __version__
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.report.page import TEMPLATES as REPORT_TEMPLATES

with Extra("app", "the app"):
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response

TEMPLATES = REPORT_TEMPLATES.overlay(
    loader=ChoiceLoader([PackageLoader("llm_marl_envs.app"), PackageLoader("llm_marl_envs.report")])
)


def page(name: str, request: Request, status: int = 200, **shown: Any) -> HTMLResponse:
    """A page from its template."""
    section = request.url.path.split("/")[1]
    whole = TEMPLATES.get_template(f"{name}.html.j2")
    return HTMLResponse(whole.render(**shown, section=section, version=__version__), status)


def part(name: str, request: Request, *, working: bool, **shown: Any) -> Response:
    """A page whose part is made anew while something works; or that part alone."""
    text = TEMPLATES.get_template(f"{name}_part.html.j2").render(**shown, working=working)
    if request.url.path.endswith("/part"):
        return HTMLResponse(text, headers={"X-Working": str(int(working))})
    query = f"?{request.url.query}" if request.url.query else ""
    source = f"{request.url.path}/part{query}" if working else ""
    return page("live", request, text=Markup(text), source=source, title=name)


def style() -> str:
    """The style sheet: that of reports, and what pages add."""
    return "\n".join(TEMPLATES.get_template(n).render() for n in ("style.css", "app.css"))
