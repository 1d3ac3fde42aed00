"""Names of made-up people."""

from __future__ import annotations

FIRST_NAMES = (
    "Ada",
    "Billie",
    "Cleo",
    "Dexter",
    "Edda",
    "Frankie",
    "Greta",
    "Hank",
    "Iris",
    "Jonah",
    "Kit",
    "Lena",
    "Miles",
    "Nina",
    "Otis",
    "Pearl",
)
LAST_NAMES = (
    "Ash",
    "Barrow",
    "Castle",
    "Delmar",
    "Ellery",
    "Finch",
    "Grove",
    "Hale",
    "Ivers",
    "Jett",
    "Knox",
    "Lowell",
    "Marsh",
    "North",
    "Quill",
    "Rivers",
)
