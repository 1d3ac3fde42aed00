"""Runs benchmarks, each in a process of its own.

python -m benchmarks [NAME…] [--scale 1.0] [--json FILE] [--plot FILE] [--readme FILE] [--directory DIR]
[--list]
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks import NAMES
from benchmarks.report import read_json, replace_table, table, write_json
from benchmarks.runner import run_in_process


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    options = _parser().parse_args(arguments)
    if options.list:
        for name in NAMES:
            print(
                f"{name:13} {(importlib.import_module(f'benchmarks.{name}').__doc__ or '').splitlines()[0]}"
            )
        return
    figures = []
    for name in options.names or NAMES:
        figures += run_in_process(name, options.scale, options.directory)
        if options.json is not None:
            write_json((figure for figure in figures if figure.benchmark == name), options.json)
    if options.json is not None:
        figures = read_json([options.json])
    print(f"\n{table(figures)}")
    if options.readme is not None:
        replace_table(options.readme, figures)
    if options.plot is not None:
        from benchmarks.plot import draw, draw_queries  # noqa: PLC0415  matplotlib is slow to import, and optional

        draw(figures, options.plot)
        draw_queries(figures, options.plot.with_stem(f"{options.plot.stem}-tpch"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures livestate. Answers are checked before anything is timed.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", choices=[*NAMES, []], help="which to run; all by default"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="size of the runs; targets are for 1")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="add the figures to this file of JSON lines, and show all that are in it",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the figures: .svg or .png; those of TPC-H beside it, in NAME-tpch",
    )
    parser.add_argument("--readme", type=Path, metavar="FILE", help="replace the table in this Markdown page")
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where temporary data goes; the system's place by default",
    )
    parser.add_argument("--list", action="store_true", help="say what there is")
    return parser


if __name__ == "__main__":
    main()
