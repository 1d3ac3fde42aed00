"""Other ways to ask that must not matter, all in one tuple."""

from __future__ import annotations

from tests.oracle.metamorphic.asking import ASKED_AGAIN, EXPLAINED
from tests.oracle.metamorphic.collations import COLLATED_OUTPUTS, FOLDED_AND_COLLATED
from tests.oracle.metamorphic.nesting import (
    AS_CTE,
    AS_DERIVED_TABLE,
    BESIDE_WHAT_IS_GATHERED,
    CONDITION_PUSHED,
    NESTED_TWICE,
    WITH_WHERE_TRUE,
)
from tests.oracle.metamorphic.parameters import LITERALS_AS_PARAMETERS, PARAMETERS_AS_LITERALS
from tests.oracle.metamorphic.partitioning import ROWS_IN_THREE, SUMS_IN_THREE
from tests.oracle.metamorphic.redundancy import CLOSED_EQUALITY, REDUNDANT_JOIN

RELATIONS = (
    LITERALS_AS_PARAMETERS,
    PARAMETERS_AS_LITERALS,
    AS_CTE,
    AS_DERIVED_TABLE,
    BESIDE_WHAT_IS_GATHERED,
    NESTED_TWICE,
    WITH_WHERE_TRUE,
    CONDITION_PUSHED,
    ROWS_IN_THREE,
    SUMS_IN_THREE,
    REDUNDANT_JOIN,
    CLOSED_EQUALITY,
    COLLATED_OUTPUTS,
    FOLDED_AND_COLLATED,
    ASKED_AGAIN,
    EXPLAINED,
)
