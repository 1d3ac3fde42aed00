"""Other ways to ask that must not matter, all in one tuple."""

from __future__ import annotations

from random import Random

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
from tests.oracle.metamorphic.other_values import OTHER_PARAMETERS, OTHER_VALUES
from tests.oracle.metamorphic.parameters import (
    LITERALS_AS_PARAMETERS,
    PARAMETERS_AS_LITERALS,
    TEXT_AS_PARAMETER,
)
from tests.oracle.metamorphic.partitioning import ROWS_IN_THREE, SUMS_IN_THREE
from tests.oracle.metamorphic.redundancy import CLOSED_EQUALITY, REDUNDANT_JOIN
from tests.oracle.metamorphic.relation import Relation

RELATIONS = (
    LITERALS_AS_PARAMETERS,
    PARAMETERS_AS_LITERALS,
    TEXT_AS_PARAMETER,
    OTHER_VALUES,
    OTHER_PARAMETERS,
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
_RARE = {
    COLLATED_OUTPUTS.name,
    FOLDED_AND_COLLATED.name,
    CLOSED_EQUALITY.name,
    PARAMETERS_AS_LITERALS.name,
    CONDITION_PUSHED.name,
    LITERALS_AS_PARAMETERS.name,
    OTHER_VALUES.name,
    OTHER_PARAMETERS.name,
}
"""Those that apply to few statements."""


def relations_of(seed: str) -> tuple[Relation, ...]:
    """All relations in the order in which they are tried with the statement of a seed: rare ones sooner,
    so that these are asked as often as the others.
    """
    random = Random(f"relations {seed}")
    drawn = {
        relation.name: random.random() ** (0.3 if relation.name in _RARE else 1.0) for relation in RELATIONS
    }
    return tuple(sorted(RELATIONS, key=lambda relation: -drawn[relation.name]))
