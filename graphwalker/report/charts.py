"""Line charts as inline SVG: no script, nothing fetched, every text escaped (`Markup.format` escapes its arguments)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 30
COLOURS = 8  # the classes s0 … s7 of the style sheet
_MOST_POINTS = 300

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A named line; ``bars`` are interval ends (low, high) for each point, or empty; ``faint`` draws it thin."""

    name: str
    points: Sequence[Point]
    bars: Sequence[Point] = ()
    faint: bool = False
    colour: int = 0


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str = "step",
    x_names: Sequence[str] = (),
    unit_range: bool = False,
) -> Markup:
    """A chart with its legend; ``x_names`` label the places 0, 1, ... in words; ``unit_range`` fixes y to 0 to 1."""
    drawn = [thinned(s) for s in series if s.points]
    if not drawn:
        return Markup("")
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points] + [y for s in drawn for bar in s.bars for y in bar]
    x_ticks = list(range(len(x_names))) if x_names else ticks(min(xs), max(xs), 5)
    y_ticks = [0, 0.25, 0.5, 0.75, 1] if unit_range else ticks(min(ys), max(ys), 4)
    low, high = min([*y_ticks, *ys]), max([*y_ticks, *ys])
    first, last = (-0.3, len(x_names) - 0.7) if x_names else (min(xs), max(xs))
    scale = _Scale(first, last, low, high)
    body = Markup("").join(
        [
            *(_y_tick(scale, tick) for tick in y_ticks),
            *(_x_tick(scale, tick, x_names[i] if x_names else _short(tick)) for i, tick in enumerate(x_ticks)),
            Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
                WIDTH - RIGHT, HEIGHT - 2, x_label
            ),
            *(_line(scale, s) for s in drawn),
        ]
    )
    summary = "; ".join(f"{s.name}: from {_short(s.points[0][1])} to {_short(s.points[-1][1])}" for s in drawn)
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
        '<ul class="legend">{}</ul></figure>'
    ).format(title, WIDTH, HEIGHT, f"{title}. {summary}", body, _legend(drawn))


def interval_bar(value: float | None, low: float | None, high: float | None) -> Markup:
    """A small bar from 0 to 1 with the interval as a whisker."""
    if value is None or low is None or high is None:
        return Markup("")
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" aria-hidden="true"><rect class="track" width="100" height="10" rx="2"/>'
        '<rect class="fill" width="{:.1f}" height="10" rx="2"/><path class="whisker" d="M{:.1f} 5H{:.1f}"/></svg>'
    ).format(100 * value, 100 * low, 100 * high)


def smoothed(points: Sequence[Point], span: int = 0) -> list[Point]:
    """A centred running mean over ``span`` points (about a tenth of the line when 0)."""
    half = (span or max(3, len(points) // 10)) // 2
    means = []
    for i, (x, _) in enumerate(points):
        window = points[max(0, i - half) : i + half + 1]
        means.append((x, sum(y for _, y in window) / len(window)))
    return means


def thinned(series: Series) -> Series:
    """The series with at most 300 points: each the mean of as many neighbours."""
    size = math.ceil(len(series.points) / _MOST_POINTS)
    if size <= 1:
        return series
    blocks = [series.points[i : i + size] for i in range(0, len(series.points), size)]
    points = [(sum(x for x, _ in b) / len(b), sum(y for _, y in b) / len(b)) for b in blocks]
    return Series(series.name, points, (), series.faint, series.colour)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers that cover the range, roughly ``about`` of them.

    >>> ticks(0, 1, 4), ticks(3, 97, 4)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 25.0, 50.0, 75.0, 100.0])
    """
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-100):
        pad = abs(low) * 0.1 if abs(low) > 1e-100 else 1.0
        low, high = low - pad, high + pad
    power = 10.0 ** math.floor(math.log10((high - low) / about))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs((high - low) / s - about))
    return [round(i * step, 12) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


@dataclass(frozen=True, slots=True)
class _Scale:
    first: float
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        share = (value - self.first) / ((self.last - self.first) or 1)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _y_tick(scale: _Scale, value: float) -> Markup:
    y = scale.y(value)
    return Markup(
        '<path class="grid" d="M{} {}H{}"/><text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 3.5, _short(value))


def _x_tick(scale: _Scale, value: float, name: str) -> Markup:
    if not scale.first <= value <= scale.last:
        return Markup("")
    return Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        scale.x(value), HEIGHT - BOTTOM + 15, name if len(name) <= 14 else name[:13] + "…"
    )


def _line(scale: _Scale, series: Series) -> Markup:
    places = [(scale.x(x), scale.y(y)) for x, y in series.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    colour = f"s{series.colour % COLOURS}"
    parts = [Markup('<path class="line {}{}" d="{}"/>').format(colour, " faint" if series.faint else "", path)]
    for (x, _), (low, high) in zip(places, series.bars, strict=False):
        parts.append(Markup('<path class="ends {}" d="M{} {}V{}"/>').format(colour, x, scale.y(low), scale.y(high)))
    if not series.faint and len(places) <= 40:
        for (x, y), (_, value) in zip(places, series.points, strict=True):
            parts.append(
                Markup('<circle class="dot {}" cx="{}" cy="{}" r="3"><title>{}: {}</title></circle>').format(
                    colour, x, y, series.name, _short(value)
                )
            )
    return Markup("").join(parts)


def _legend(drawn: Sequence[Series]) -> Markup:
    return Markup("").join(
        Markup(
            '<li><svg viewBox="0 0 16 8" aria-hidden="true"><path class="line s{}" d="M0 4H16"/></svg>{}</li>'
        ).format(s.colour % COLOURS, s.name)
        for s in drawn
        if not s.faint
    )


def _short(value: float) -> str:
    """A number in few characters.

    >>> _short(0.25), _short(1500000), _short(0.00012), _short(3)
    ('0.25', '1.5M', '1.2e-4', '3')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    if value and abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.4g}"
