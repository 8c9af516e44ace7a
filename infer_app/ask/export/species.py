"""Reads what labels mean: their scientific names, of a file of the user's, or which they are themselves."""

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from infer_app.base.errors import UsageError
from infer_app.base.settings.csv_table import read_lines

SCIENTIFIC_NAME = re.compile(r"[A-Z][a-z]+( [a-z-]+){1,2}")
Rank = Literal["kingdom", "phylum", "class", "order", "family", "genus", "species", "subspecies"]  # of Camtrap DP


class Species(BaseModel):
    """State what a label means: the columns of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    scientific_name: str
    taxon_id: str | None = None  # preferably a URI of a checklist
    rank: Rank | None = None


class SpeciesNames(dict[str, Species]):
    """Holds what is known of labels."""

    @classmethod
    def read(cls, path: Path | None) -> "SpeciesNames":
        """Read the file, if there is one. Raises UsageError as `read_lines` does, and for a label with two lines."""
        found = cls()
        for where, one in read_lines(path, Species) if path else ():
            if found.setdefault(one.label, one) is not one:
                raise UsageError(f"{where}: there is another line of {one.label!r}", "one line says what a label means")
        return found

    def name_of(self, label: str) -> str | None:
        """Return the scientific name of a label, None if it is not known."""
        if label in self:
            return self[label].scientific_name
        return label if SCIENTIFIC_NAME.fullmatch(label) else None

    def taxon(self, name: str) -> dict[str, str]:
        """Return what is known of a scientific name, as Camtrap DP has it."""
        known = next((one for one in self.values() if one.scientific_name == name), None)
        more = {"taxonID": known.taxon_id, "taxonRank": known.rank} if known else {}
        return {"scientificName": name} | {key: value for key, value in more.items() if value}
