"""A society over its rounds as a drawing, an SVG of 400 units, for people. Pure functions.

Above what each took or gave, in stacked bars before what there was; where each has something of its
own, lines of that. Below a row of each seat, with marks. It has its own colours, light and dark, so
it can stand in HTML and in a file of its own.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

from llm_marl_envs.core.rendering import visible
from llm_marl_envs.core.society import GROUP, OVER_USE, Society

WIDE, LEFT, RIGHT = 400, 96, 8
"""Of the drawing, and what is left free beside the rounds."""
TOP, HIGH, ROW, BAR, HEAD = 24, 110, 22, 13, 11
"""Where the upper part begins, how high it is, a row, a bar in it, what marks add to a row."""
SLOT = 48
"""The most that a round is wide."""
GAP = 0.15
"""Of a slot, on both sides of a bar."""
COLOURS, LETTER = 6, 7
"""Of seats; units of a letter."""
LONGEST_NAME = 12
FEWEST = 4
"""Ticks of an axis, at most; with the zero one more."""
LEAST = 1e-300
"""Of an amount that is drawn: steps of an axis of smaller ones are no numbers any more."""

LIGHT = (
    "--paper:#fff;--ink:#1c2024;--soft:#5c646d;--rule:#d9dee3;--warn:#c62828;"
    "--s0:#0072b2;--s1:#d55e00;--s2:#00815c;--s3:#b0478c;--s4:#8a6d00;--s5:#4b5563"
)
DARK = (
    "--paper:#14171a;--ink:#e6e9ec;--soft:#9da6b0;--rule:#333a41;--warn:#ff8a80;"
    "--s0:#56b4e9;--s1:#f0883e;--s2:#33c19a;--s3:#de8fc0;--s4:#e5c84a;--s5:#b4bcc6"
)
RULES = {
    "": "max-width:100%;height:auto;font:11px system-ui,sans-serif",
    "text": "fill:var(--soft);font-size:11px",
    ".letter": "fill:var(--ink);font-size:9px;text-anchor:middle",
    ".paper": "fill:var(--paper)",
    ".rule": "stroke:var(--rule);fill:none",
    ".stock": "fill:var(--rule)",
    ".seat": "fill:var(--c)",
    ".path": "stroke:var(--c);stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round",
    ".late.seat": "opacity:.55",
    ".late.path": "stroke-dasharray:4 3",
    ".over": "fill:var(--warn)",
    ".end": "stroke:var(--warn);stroke-dasharray:3 3;fill:none",
    ".mark": "stroke:var(--ink);stroke-width:1.3;fill:none",
    **{f".c{place}": f"--c:var(--s{place})" for place in range(COLOURS)},
}
STYLE = f".society{{{LIGHT}}}@media (prefers-color-scheme:dark){{.society{{{DARK}}}}}" + "".join(
    f".society {name}".rstrip() + f"{{{rule}}}" for name, rule in RULES.items()
)


def society_svg(society: Society) -> str:
    """The rounds of a society; an empty text where there are none."""
    count = len(society.rounds)
    if not count:
        return ""
    slot = min(SLOT, (WIDE - LEFT - RIGHT) / count)
    levels = _lines(society, slot) if society.tells("had") else _bars(society, slot)
    below = TOP + HIGH
    first = below + 34
    head = HEAD * any(_has(society, name) for name in ("spent", "fined", GROUP))
    places = [first + (ROW + head) * at + head for at in range(len(society.seats))]
    rows = [_row(society, s, y, slot) for s, y in zip(society.seats, places, strict=True)]
    bottom = first + (ROW + head) * len(rows)
    marks = _marks(society, bottom + 14)
    high = bottom + (22 if marks else 6)
    end = []
    if society.collapsed:
        x = LEFT + slot * count
        end = [
            f'<path class="end" d="M{x:.1f} {TOP}V{bottom}"/>',
            _text(WIDE - RIGHT, 14, f"over in round {count}", "end"),
        ]
    parts = [*levels, *_numbers(count, slot, below + 14), _text(4, first - 4, _row_title(society))]
    parts += [*rows, *end, *marks]
    return (
        f'<svg class="society" width="{WIDE}" height="{high}" viewBox="0 0 {WIDE} {high}" '
        f'role="img" xmlns="http://www.w3.org/2000/svg"><title>A society over time</title>'
        f"<desc>{_safe(described(society))}</desc><style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDE}" height="{high}"/>{"".join(parts)}</svg>'
    )


def described(society: Society) -> str:
    """The drawing in words."""
    count = len(society.rounds)
    says = [f"{count} round{'s' * (count > 1)}."]
    stocks = [stock for at in range(count) if (stock := society.stock(at)) is not None]
    if stocks:
        says.append(f"There was {shown(stocks[0])} at first, {shown(stocks[-1])} before the last.")
    if society.tells("had"):
        had = ((seat, society.rounds[-1][seat].get("had")) for seat in society.seats)
        names = ", ".join(f"{seat} {shown(own)}" for seat, own in had)
        says.append(f"Had before the last: {names}.")
    if society.amount:
        says.append(f"In all {society.verb}: {_sums(society, society.amount)}.")
    over = [
        f"{seat} in {_ranges(numbers)}"
        for seat in society.seats
        if (numbers := [n for n, flag in enumerate(society.each(OVER_USE, seat), 1) if flag])
    ]
    says.append(f"Over-use, by round: {'; '.join(over) or 'none'}.")
    for name, word in (("spent", "Spent to punish"), ("fined", "Lost by punishment")):
        if _has(society, name):
            says.append(f"{word}: {_sums(society, name)}.")
    return " ".join([*says, *([f"Over in round {count}."] if society.collapsed else [])])


def shown(amount: float | None) -> str:
    """A number with two decimals at most; "-" for None."""
    if amount is None:
        return "-"
    return f"{amount:.3g}" if amount >= 1e6 else f"{amount:.2f}".rstrip("0").rstrip(".")


# -- the upper part -------------------------------------------------------------------------------
def _bars(society: Society, slot: float) -> list[str]:
    """Stacked bars of what each took or gave, before what there was."""
    count = len(society.rounds)
    stocks = [society.stock(at) or 0.0 for at in range(count)]
    amounts = [[value or 0.0 for value in society.each(society.amount, s)] for s in society.seats]
    most = max(*stocks, *map(sum, zip(*amounts, strict=True)))
    top = most if most > LEAST else 1.0
    unit = HIGH / top
    title = f"what each {society.verb or 'did'}" + (", grey what there was" if any(stocks) else "")
    parts = [_text(4, 14, title), *_grid(_steps(top), lambda value: value * unit)]
    grounds = [(at, 0.0, stock * unit) for at, stock in enumerate(stocks)]
    parts.append(_boxes("stock", grounds, slot, 0))
    floor = [0.0] * count
    for place, row in enumerate(amounts):
        boxes = [(at, floor[at], value * unit) for at, value in enumerate(row)]
        parts.append(_boxes(f"seat {_colour(place)}", boxes, slot, GAP))
        floor = [bottom + value * unit for bottom, value in zip(floor, row, strict=True)]
    return parts


def _lines(society: Society, slot: float) -> list[str]:
    """A line of each seat, of what it had before each round, by its logarithm."""
    rows = [society.each("had", seat) for seat in society.seats]
    top = max([1.0, *(value for row in rows for value in _known(row))])

    def height(value: float) -> float:
        return HIGH * math.log1p(value) / math.log1p(top)

    powers = range(math.floor(math.log10(top)) + 1)
    ticks = [0.0, *(10.0**power for power in powers[:: -(-len(powers) // FEWEST)])]
    parts = [_text(4, 14, "what each had, by its logarithm"), *_grid(ticks, height)]
    for place, row in enumerate(rows):
        points = [
            f"{LEFT + slot * (at + 0.5):.1f} {TOP + HIGH - height(value):.1f}"
            for at, value in enumerate(row)
            if value is not None
        ]
        if points:
            path = f"M{'L'.join(points)}" + ("h.1" if len(points) == 1 else "")
            parts.append(f'<path class="path {_colour(place)}" d="{path}"/>')
    return parts


def _grid(ticks: Sequence[float], height: Callable[[float], float]) -> list[str]:
    parts, last = [], -math.inf
    for tick in ticks:
        if height(tick) < last + 11:  # no room for its number
            continue
        last = height(tick)
        y = TOP + HIGH - last
        parts.append(f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDE - RIGHT}"/>')
        parts.append(_text(LEFT - 6, y + 4, shown(tick), "end"))
    return parts


def _steps(top: float) -> list[float]:
    """Ticks from 0 to at most `top`, at even numbers."""
    size = 10.0 ** math.floor(math.log10(top))
    step = next(size * part for part in (0.25, 0.5, 1, 2.5) if top / (size * part) <= FEWEST)
    return [step * at for at in range(int(top / step) + 1)]


def _numbers(count: int, slot: float, y: float) -> list[str]:
    """The rounds' numbers, as many as have room."""
    stride = math.ceil(26 / slot)
    places = range(0, count, stride)
    return [
        _text(4, y, "round"),
        *(_text(LEFT + slot * (at + 0.5), y, str(at + 1), "middle") for at in places),
    ]


# -- the rows -------------------------------------------------------------------------------------
def _row_title(society: Society) -> str:
    return "share that each gave" if society.tells("share") else f"each {society.verb or 'seat'}"


def _row(society: Society, seat: str, y: float, slot: float) -> str:
    """What one seat took or gave, as bars, and what is marked."""
    name = "share" if society.tells("share") else society.amount
    every = [value for other in society.seats for value in _known(society.each(name, other))]
    unit = BAR / (1.0 if name == "share" else max([0.0, *every]) or 1.0)
    base, place = y + BAR + 3, society.seats.index(seat)
    values = [min(value or 0.0, BAR / unit) for value in society.each(name, seat)]
    boxes = [(at, 0.0, value * unit) for at, value in enumerate(values)]
    over = [(at, -3.0, 2.5) for at, flag in enumerate(society.each(OVER_USE, seat)) if flag]
    parts = [
        f'<rect class="seat {_colour(place)}" x="4" y="{y + 6:.1f}" width="8" height="8"/>',
        _text(16, y + 14, _short(seat)),
        f'<path class="rule" d="M{LEFT} {base:.1f}H{WIDE - RIGHT}"/>',
        _boxes(f"seat {_colour(place)}", boxes, slot, GAP, base),
        _boxes("over", over, slot, GAP, base),
    ]
    size = min(3.0, slot / 8)
    for fact, side, draw in (("spent", 0.5, _cross), ("fined", 0.8, _ring)):
        flags = enumerate(society.each(fact, seat))
        path = "".join(draw(LEFT + slot * (at + side), y - 3, size) for at, flag in flags if flag)
        parts += [f'<path class="mark" d="{path}"/>'] if path else []
    return "".join([*parts, *_letters(society, seat, y, slot)])


def _letters(society: Society, seat: str, y: float, slot: float) -> list[str]:
    """Which group a seat was in, where there were several; who was alone has a dash."""
    parts = []
    for at, done in enumerate(society.rounds if slot >= 2 * LETTER else ()):
        groups = [*dict.fromkeys(facts[GROUP] for facts in done.values() if GROUP in facts)]
        own = done[seat].get(GROUP)
        if own is None or len(groups) < 2:
            continue
        several = [group for group in groups if len(group) > 1]
        letter = chr(ord("a") + several.index(own) % 26) if own in several else "-"
        x = LEFT + slot * 0.2
        parts.append(f'<text class="letter" x="{x + slot * at:.1f}" y="{y}">{letter}</text>')
    return parts


def _marks(society: Society, y: float) -> list[str]:
    """What the marks mean, those that there are."""
    kinds = {
        OVER_USE: ("over", _box(0, 0, 8, 2.5), "over-use"),
        "spent": ("mark", _cross(4, -3, 3), "fines others"),
        "fined": ("mark", _ring(4, -3, 3), "fined"),
        GROUP: ("mark", "", "a b: groups, -: alone"),
    }
    parts, x = [], 4.0
    for kind, path, words in (kinds[name] for name in kinds if _has(society, name)):
        wide = 12 * bool(path)
        if path:
            at = f"translate({x:.0f} {y - 1})"
            parts.append(f'<path class="{kind}" transform="{at}" d="{path}"/>')
        parts.append(_text(x + wide, y + 2, words))
        x += wide + 10 + 6 * len(words)
    return parts


def _has(society: Society, name: str) -> bool:
    """Whether a fact is to be marked somewhere; groups, where there were several."""
    if name == GROUP:
        return any(len({f.get(GROUP) for f in done.values()}) > 1 for done in society.rounds)
    return any(any(_known(society.each(name, seat))) for seat in society.seats)


# -- shapes ---------------------------------------------------------------------------------------
def _boxes(
    kind: str,
    boxes: Sequence[tuple[int, float, float]],
    slot: float,
    gap: float,
    base: float = TOP + HIGH,
) -> str:
    """Boxes as one path: (round, its bottom above the base, its height)."""
    paths = [
        _box(LEFT + slot * (at + gap), base - bottom, slot * (1 - 2 * gap), height)
        for at, bottom, height in boxes
        if height > 0
    ]
    return f'<path class="{kind}" d="{"".join(paths)}"/>' if paths else ""


def _box(x: float, y: float, wide: float, high: float) -> str:
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{-high:.1f}h{-wide:.1f}z"


def _cross(x: float, y: float, size: float) -> str:
    both = 2 * size
    return (
        f"M{x - size:.1f} {y - size:.1f}l{both:.1f} {both:.1f}m0 {-both:.1f}l{-both:.1f} {both:.1f}"
    )


def _ring(x: float, y: float, size: float) -> str:
    arc = f"a{size:.1f} {size:.1f} 0 0 1"
    return f"M{x - size:.1f} {y:.1f}{arc} {2 * size:.1f} 0{arc} {-2 * size:.1f} 0"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return html.escape(visible(text))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _colour(place: int) -> str:
    """The classes of a seat; from the seventh on colours begin anew, paler or dashed."""
    return f"c{place % COLOURS}" + " late" * (place // COLOURS % 2)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers, those in a row as `3 to 5`."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in pairs)


def _sums(society: Society, name: str) -> str:
    """A fact of each seat, summed over rounds."""
    sums = ((seat, sum(_known(society.each(name, seat)))) for seat in society.seats)
    return ", ".join(f"{seat} {shown(total)}" for seat, total in sums)
