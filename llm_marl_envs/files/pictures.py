"""Pictures by matplotlib, which an extra brings: files, and drawings inside of an HTML page.

Figures are made without pyplot, so nothing outlives them.
"""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

DRAWN: Any = {"svg.fonttype": "none", "text.parse_math": False, "font.size": 12}
"""Settings of a drawing for a page: text stays text, and is none but text."""
UNITS = 72
"""Points to an inch: a figure of 420 points is 420 units of the drawing wide."""
_OWN_NAME = re.compile(r".+_\d+")


def require_matplotlib() -> Any:
    """`matplotlib.figure.Figure`, which leaves pyplot's state alone.

    Raises:
        ImportError: matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"a picture needs matplotlib ({error}): pip install 'llm-marl-envs[eval]'"
        ) from error
    return Figure


def plain_text(text: str) -> str:
    """Text that is drawn as it is: `$` would begin a formula."""
    return " ".join(text.split()).replace("$", r"\$")


def svg_parts(figure: Any) -> str:
    """What stands between `<svg>` and `</svg>`, for a page whose style sheet draws it.

    Shapes alone are left of a figure, without ids, dates, colours and widths, so equal figures give
    equal text: an artist's `gid` becomes the `class` of its group. Nothing is cut off at the edges
    of the axes, and markers are lost: they need ids.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg")
    root = ElementTree.fromstring(file.getvalue())
    parts = [one for one in root if one.tag.endswith("}g")]
    for element in (each for part in parts for each in part.iter()):
        element.tag = element.tag.rpartition("}")[2]
        anchor = re.search(r"text-anchor: (\w+)", element.attrib.pop("style", ""))
        name = element.attrib.pop("id", "")
        element.attrib.pop("clip-path", None)
        if anchor:
            element.set("text-anchor", anchor[1])
        if name and not _OWN_NAME.fullmatch(name):
            element.set("class", name)
        if "d" in element.attrib:
            element.set("d", re.sub(r"(\.\d)\d+", r"\1", " ".join(element.attrib["d"].split())))
    return "".join(ElementTree.tostring(part, encoding="unicode") for part in parts)
