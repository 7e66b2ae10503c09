"""One picture, as SVG: index by index and over time, what ran where, what was lost, what was run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT, TOP = 960, 84, 30, 92
LANE = 15
KINDS = ("spot", "on-demand")
ENDS = {"lost": "lost with its machine", "failed": "failed", "killed": "killed by the move"}
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f } .middle { text-anchor: middle }
.title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #6e7781 }
.end { text-anchor: end }
.spot { fill: #5b8def } .on-demand { fill: #3f9c6b } .lost { opacity: .45 } .killed { opacity: .45 }
.failed { fill: #c9372c } .mark { stroke: #c9372c; stroke-width: 2 }
.step { stroke: #8250df; stroke-dasharray: 4 3 }
.said { font-size: 11px; fill: #8250df } .axis { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #8b949e } .ground { fill: #0d1117 } .axis { stroke: #30363d }
}
"""


class Ran(NamedTuple):
    """One pod: of which index, where, from when to when (seconds since the first), and how it ended."""

    shard: int
    generation: int
    kind: str
    node: str
    start: float
    end: float
    ended: str  # "succeeded" or a key of ENDS


class Step(NamedTuple):
    """Something that happened to the whole Job."""

    at: float
    words: str


def draw(pods: Sequence[Ran], steps: Sequence[Step]) -> str:
    """Return the picture: a row for each index, a block for each of its pods."""
    rows = max((ran.shard for ran in pods), default=0) + 1
    seconds = max((ran.end for ran in pods), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / seconds
    foot = TOP + rows * LANE + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {foot + 40}" role="img">',
        f'<style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{foot + 40}" fill="#fff"/>',
        f'<text class="title" x="20" y="26">{escape(headline(pods, rows))}</text>',
        *_legend(),
        *_steps(steps, scale, foot),
        *(
            f'<text class="small end" x="{LEFT - 8}" y="{TOP + row * LANE + 10}">{row}</text>'
            for row in range(rows)
        ),
        *(line for ran in pods for line in _block(ran, scale)),
        *_axis(seconds, foot),
        "</svg>",
    ]
    return "\n".join(parts)


def headline(pods: Sequence[Ran], rows: int) -> str:
    """Return the figures."""
    count = {end: sum(ran.ended == end for ran in pods) for end in ("succeeded", *ENDS)}
    return (
        f"{rows} indexes, {len(pods)} pods: {count['succeeded']} succeeded, {count['lost']} lost with their "
        f"machines, {count['failed']} failed, {count['killed']} killed by the move to on-demand"
    )


def _legend() -> Iterator[str]:
    x = LEFT
    for name in (*KINDS, "failed"):
        yield f'<rect class="{name}" x="{x}" y="40" width="14" height="11" rx="2"/>'
        yield f'<text class="small" x="{x + 20}" y="50">{name}</text>'
        x += 110
    yield f'<line class="mark" x1="{x + 2}" x2="{x + 2}" y1="40" y2="51"/>'
    yield f'<text class="small" x="{x + 12}" y="50">pale, with a red end: lost, or killed</text>'


def _steps(steps: Sequence[Step], scale: float, foot: int) -> Iterator[str]:
    for number, step in enumerate(steps):
        x = LEFT + step.at * scale
        yield f'<line class="step" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{foot}"/>'
        anchor = ' text-anchor="end"' if x > WIDTH * 0.6 else ""
        y = TOP - 22 + 12 * (number % 2)
        yield f'<text class="said"{anchor} x="{x:.1f}" y="{y}">{escape(step.words)}</text>'


def _block(ran: Ran, scale: float) -> Iterator[str]:
    x, y = LEFT + ran.start * scale, TOP + ran.shard * LANE
    width = max((ran.end - ran.start) * scale - 1, 2)
    kind = "failed" if ran.ended == "failed" else f"{ran.kind} {ran.ended}"
    how = ENDS.get(ran.ended, ran.ended)
    says = f"index {ran.shard} on {ran.node} ({ran.kind}), {ran.end - ran.start:.1f} s: {how}"
    place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE - 4}" rx="2"'
    yield f'<rect class="{kind}" {place}><title>{escape(says)}</title></rect>'
    if ran.ended in ("lost", "killed"):
        end = x + width
        yield f'<line class="mark" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 1}" y2="{y + LANE - 3}"/>'


def _axis(seconds: float, foot: int) -> Iterator[str]:
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{foot}" y2="{foot}"/>'
    for part in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * part / 4
        yield f'<text class="small middle" x="{x:.0f}" y="{foot + 16}">{seconds * part / 4:.0f} s</text>'
    yield f'<text class="small end" x="{LEFT - 8}" y="{TOP - 6}">index</text>'
