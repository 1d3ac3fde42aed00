from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.split_runner import SplitRunner
from tests.unit.plan.split.stores import HOSTS, stores


@pytest.fixture(scope="session")
def runner() -> Iterator[SplitRunner]:
    with SplitRunner(stores(), HOSTS) as found:
        yield found
