"""One picture, as SVG: when each shard ran, and which packages are largest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT = 960, 190, 70
LANE, BAR, GAP = 22, 16, 6
MAX_LANES = 24
LEGEND = ("each block is a shard,", "each row runs one at a time;", "orange: met broken files")
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f } .middle { text-anchor: middle }
.title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #6e7781 }
.end { text-anchor: end } .shard { fill: #4078c0 } .broken { fill: #d9822b }
.bar { fill: #5aa578 } .axis { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #8b949e } .ground { fill: #0d1117 } .axis { stroke: #30363d }
}
"""


class Ran(NamedTuple):
    """When a shard ran (seconds since the first began), and whether it met broken files."""

    shard: int
    start: float
    end: float
    broken: int


def draw(shards: Sequence[Ran], largest: Sequence[tuple[str, int]]) -> str:
    """Return the picture: `shards` over time in as many lanes as ran at once, `largest` in lines."""
    placed, lanes = in_lanes(shards)
    timeline = min(lanes, MAX_LANES) * LANE
    bars_from = 60 + timeline + 80
    height = bars_from + len(largest) * (BAR + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f'<style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{height}" fill="#fff"/>',
        *_timeline(placed, timeline),
        f'<text class="title" x="20" y="{bars_from - 14}">Lines of Python, largest packages</text>',
        *_bars(largest, bars_from),
        "</svg>",
    ]
    return "\n".join(parts)


def in_lanes(shards: Sequence[Ran]) -> tuple[list[tuple[Ran, int]], int]:
    """Give each shard the first lane that is free when it starts; also return how many lanes that takes."""
    free_from: list[float] = []
    placed = []
    for ran in sorted(shards, key=lambda ran: ran.start):
        free = (lane for lane, time in enumerate(free_from) if time <= ran.start)
        lane = next(free, len(free_from))
        if lane == len(free_from):
            free_from.append(ran.end)
        free_from[lane] = ran.end
        placed.append((ran, lane))
    return placed, len(free_from)


def _timeline(placed: Sequence[tuple[Ran, int]], height: int) -> Iterator[str]:
    seconds = max((ran.end for ran, _ in placed), default=0) or 1
    scale = (WIDTH - LEFT - RIGHT) / seconds
    yield f'<text class="title" x="20" y="30">{len(placed)} shards in {seconds:.1f} s</text>'
    for row, line in enumerate(LEGEND):
        yield f'<text class="small" x="20" y="{62 + 15 * row}">{line}</text>'
    yield from (_block(ran, lane, scale) for ran, lane in placed if lane < MAX_LANES)
    foot = 48 + height + 4
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{foot}" y2="{foot}"/>'
    for part in range(5):
        x, time = LEFT + (WIDTH - LEFT - RIGHT) * part / 4, seconds * part / 4
        yield f'<text class="small middle" x="{x:.0f}" y="{foot + 16}">{time:.1f} s</text>'


def _block(ran: Ran, lane: int, scale: float) -> str:
    seconds = ran.end - ran.start
    kind = "shard broken" if ran.broken else "shard"
    place = f'x="{LEFT + ran.start * scale:.1f}" y="{48 + lane * LANE}"'
    size = f'width="{max(seconds * scale - 1, 1):.1f}" height="{LANE - 4}" rx="2"'
    says = f"<title>shard {ran.shard}: {seconds:.2f} s, {ran.broken} broken</title>"
    return f'<rect class="{kind}" {place} {size}>{says}</rect>'


def _bars(largest: Sequence[tuple[str, int]], top: int) -> Iterator[str]:
    scale = (WIDTH - LEFT - RIGHT) / max((lines for _, lines in largest), default=1)
    for row, (name, lines) in enumerate(largest):
        y = top + row * (BAR + GAP)
        yield f'<text class="end" x="{LEFT - 8}" y="{y + BAR - 3}">{escape(name)}</text>'
        yield f'<rect class="bar" x="{LEFT}" y="{y}" width="{lines * scale:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text class="small" x="{LEFT + lines * scale + 6:.1f}" y="{y + BAR - 4}">{lines:,}</text>'
