"""What was measured: figures, kept as JSON lines, shown as a Markdown table and as a plot.

`python -m benchmarks.report FILE…` prints the table of figures that were kept.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import NAMES

TABLE_BEGIN, TABLE_END = "<!-- figures -->", "<!-- end of figures -->"


def _date_today() -> str:
    return datetime.now(UTC).date().isoformat()


def machine() -> str:
    """The machine in a few words: cores, processor, memory, Python."""
    cpus = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next(
        (int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0
    )
    return (
        f"{os.cpu_count()} cores, {cpus[0] if cpus else platform.machine()}, {memory} GiB, Python "
        f"{platform.python_version()}"
    )


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        benchmark: The benchmark's name on the command line.
        what: What was measured.
        value: How much, in `unit`.
        unit: Such as "rows/s" or "ms".
        target: What it should be at least, or at most; None where nothing was asked for.
        more_is_better: Whether the target is a lower bound.
        note: How to read it: what else was seen in the same run.
        scale: Size of the run; 1 is the full one.
        date: Day of the run, UTC.
        machine: Where.
    """

    benchmark: str
    what: str
    value: float
    unit: str
    target: float | None = None
    more_is_better: bool = False
    note: str = ""
    scale: float = 1.0
    date: str = field(default_factory=_date_today)
    machine: str = field(default_factory=machine)

    @property
    def share(self) -> float | None:
        """How well the target is met: 1 just, 2 twice as well; None without a target."""
        if not self.target or not self.value:
            return None
        return self.value / self.target if self.more_is_better else self.target / self.value

    def line(self) -> str:
        """The figure in a line, as it is printed while benchmarks run."""
        target = f"  (target {self._target_text()})" if self.target is not None else ""
        return (
            f"{self.benchmark:13} {self.what}: {number_text(self.value)} "
            f"{self.unit}{target}{f'  {self.note}' if self.note else ''}"
        )

    def _target_text(self) -> str:
        return (
            f"{'≥' if self.more_is_better else '≤'} {number_text(self.target)} {self.unit}"
            if self.target is not None
            else ""
        )

    def row(self) -> str:
        """The figure as a row of the Markdown table."""
        share = self.share
        verdict = "" if share is None else "met" if share >= 1 else "**missed**"
        scale = "" if self.scale == 1 else f"scale {self.scale:g}; "
        return (
            f"| {self.benchmark} | {self.what} | {self._target_text()} | "
            f"{number_text(self.value)} {self.unit} | {verdict} | {scale}{self.note} |"
        )


def number_text(value: float) -> str:
    """A number with three or four digits that matter."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def write_json(figures: Iterable[Figure], file: Path) -> None:
    """Add figures to a file of JSON lines."""
    with file.open("a") as out:
        out.writelines(json.dumps(asdict(figure)) + "\n" for figure in figures)


def read_json(files: Iterable[Path]) -> list[Figure]:
    """Figures from files of JSON lines, in the order of `NAMES`; of one that was measured more than once, the
    last.
    """
    found = [Figure(**json.loads(line)) for file in files for line in file.read_text().splitlines()]
    last = {(figure.benchmark, figure.what): figure for figure in found}
    return sorted(last.values(), key=lambda figure: NAMES.index(figure.benchmark))


def table(figures: Sequence[Figure]) -> str:
    """Figures as a Markdown table, with where and when they were taken below it."""
    header = ["| benchmark | what | target | measured | | seen with it |", "|---|---|---|---|---|---|"]
    origins = sorted({f"{figure.date}, {figure.machine}" for figure in figures})
    return "\n".join([*header, *(figure.row() for figure in figures), "", f"Taken: {'; '.join(origins)}."])


def replace_table(page: Path, figures: Sequence[Figure]) -> None:
    """Put the table between the two marks of a Markdown page.

    Raises:
        SystemExit: The page lacks the marks.
    """
    text = page.read_text()
    before, begin, rest = text.partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not begin or not end:
        raise SystemExit(f"{page} lacks the lines {TABLE_BEGIN} and {TABLE_END}.")
    page.write_text(f"{before}{begin}\n{table(figures)}\n{end}{after}")


if __name__ == "__main__":
    print(table(read_json(Path(name) for name in sys.argv[1:])))
