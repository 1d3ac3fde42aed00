"""Draws figures: each target as a bar, and calls a second by clients; the queries of TPC-H in a drawing of
their own.

python -m benchmarks.plot FIGURES.jsonl DRAWING.svg
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from benchmarks.report import Figure, number_text, read_json

_MET, _MISSED, _LINE, _TEXT = "#2a78b8", "#d1495b", "#333333", "#222222"
_ONE_HOST, _MANY_HOSTS = "#2a78b8", "#e0a030"
_MOST_SHOWN = 16.0
"""A target met so many times over, or more, has a bar of this length."""
_BY_CLIENTS = re.compile(r"(.+) by (\d+) clients")
_QUERY = re.compile(r"(q\d+|all queries), (one host|\d+ hosts)")


def draw(figures: Sequence[Figure], file: Path) -> None:
    """Draw figures.

    Args:
        figures: Those with a target become bars; calls a second by clients become a curve.
        file: What to write; its suffix says the format: .svg or .png.
    """
    bars = [figure for figure in figures if figure.share is not None]
    clients: dict[str, list[tuple[int, float]]] = {}
    for figure in figures:
        if found := _BY_CLIENTS.fullmatch(figure.what):
            clients.setdefault(f"{figure.benchmark}: {found[1]}", []).append((int(found[2]), figure.value))
    # Text stays text in SVG, and equal figures make an equal file.
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "livestate", "font.size": 9, "text.color": _TEXT}
    ):
        heights = [max(1.0, 0.3 * len(bars)), 2.2 if clients else 0.01]
        drawing = Drawing(figsize=(9.5, sum(heights) + 1.3), layout="constrained")
        upper, lower = drawing.subplots(2, 1, height_ratios=heights)
        _draw_targets(upper, bars)
        if clients:
            _draw_clients(lower, clients)
        else:
            lower.remove()
        _save(drawing, file)


def draw_queries(figures: Sequence[Figure], file: Path) -> None:
    """Draw how many times DuckDB's time the queries of TPC-H take.

    Args:
        figures: Those of queries become bars; without any, nothing is drawn.
        file: What to write, as for `draw`.
    """
    ratios: dict[str, dict[str, float]] = {}
    for figure in figures:
        if figure.benchmark == "tpch" and (found := _QUERY.fullmatch(figure.what)):
            ratios.setdefault(found[2], {})[found[1].replace("all queries", "all")] = figure.value
    if not ratios:
        return
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "livestate", "font.size": 9, "text.color": _TEXT}
    ):
        drawing = Drawing(figsize=(9.5, 3.6), layout="constrained")
        axes = drawing.subplots()
        names = sorted(next(iter(ratios.values())))
        width = 0.8 / len(ratios)
        for number, (system, values) in enumerate(ratios.items()):
            places = [place + (number - (len(ratios) - 1) / 2) * width for place in range(len(names))]
            axes.bar(
                places,
                [values[name] for name in names],
                width,
                label=system,
                color=(_ONE_HOST, _MANY_HOSTS)[number % 2],
            )
        axes.axhline(1, color=_LINE, linewidth=1)
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.7, len(names) - 0.3)
        axes.set_title("TPC-H, times of DuckDB's own tables: lower is better", loc="left", fontsize=10)
        axes.legend(frameon=False)
        _tidy(axes)
        _save(drawing, file)


def _save(drawing: Drawing, file: Path) -> None:
    drawing.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else {})


def _draw_targets(axes: Axes, figures: Sequence[Figure]) -> None:
    shares = [min(figure.share or 0.0, _MOST_SHOWN) for figure in figures]
    places = range(len(figures))
    axes.barh(
        places,
        [share - 1 for share in shares],
        left=1,
        color=[_MET if share >= 1 else _MISSED for share in shares],
        height=0.62,
    )
    axes.axvline(1, color=_LINE, linewidth=1)
    axes.set_yticks(places, [f"{figure.benchmark}: {figure.what}" for figure in figures])
    low, high = min([0.45, *shares]), max([2.2, *shares])
    axes.set_xscale("log", base=2)
    left, right = low / 2.4, high * 2.2
    axes.set_xlim(left, right)
    axes.set_ylim(len(figures) - 0.4, -0.6)
    ticks = [2.0**power for power in range(-3, 7) if left <= 2.0**power <= right]
    axes.set_xticks(ticks, [f"{tick:g} times" for tick in ticks])
    for place, figure, share in zip(places, figures, shares, strict=True):
        met = share >= 1
        axes.annotate(
            f"{number_text(figure.value)} {figure.unit}",
            (share, place),
            xytext=(4 if met else -4, 0),
            textcoords="offset points",
            ha="left" if met else "right",
            va="center",
            fontsize=8,
        )
    axes.set_title("Measured against the target: to the right of the line is better", loc="left", fontsize=10)
    _tidy(axes)


def _draw_clients(axes: Axes, curves: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    for name, points in curves.items():
        clients, rates = zip(*sorted(points), strict=True)
        axes.plot(clients, rates, marker="o", label=name)
        for number, rate in points:
            axes.annotate(
                f"{rate:,.0f}",
                (number, rate),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    numbers = sorted({number for points in curves.values() for number, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.set_ylim(0, max(rate for points in curves.values() for _, rate in points) * 1.25)
    axes.margins(x=0.1)
    axes.legend(frameon=False, fontsize=8)
    axes.set_xlabel("clients, on the same two cores as the host")
    axes.set_title("Answers a second", loc="left", fontsize=10)
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
    axes.minorticks_off()


if __name__ == "__main__":
    kept, drawn = read_json([Path(sys.argv[1])]), Path(sys.argv[2])
    draw(kept, drawn)
    draw_queries(kept, drawn.with_stem(f"{drawn.stem}-tpch"))
