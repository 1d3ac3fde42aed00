"""Write the fixtures of split rules anew, from the planner: `python -m tests.unit.plan.split.regenerate`.
Review the difference: a plan that changed must be right, and no worse.
"""

from __future__ import annotations

from dataclasses import replace

from tests.support.split_runner import bound_statement
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.fixture_files import DIRECTORY, plan_lines, read, write
from tests.unit.plan.split.stores import SMALL, sizes_of, stores


def main() -> None:
    """Write every file."""
    definitions = [definition for definition, _ in stores().values()]
    sizes = sizes_of(SMALL)
    for path in sorted(DIRECTORY.glob("*.sql")):
        write(
            path,
            [
                replace(each, plan=plan_lines(split_or_gather(bound_statement(each.sql, definitions), sizes)))
                for each in read(path)
            ],
        )


if __name__ == "__main__":
    main()
