"""Notice that the upper bound of a hop over several edges left nodes unreached."""

from dataclasses import dataclass


@dataclass(slots=True)
class CutOff:
    """Whether the searches of a hop were cut off by its upper bound: there are nodes beyond it.

    Finding out costs a look at the neighbours of the last nodes that were reached, which ends at the first one that is
    new. It is repeated for the next sources until one was found.
    """

    is_looked_for: bool
    is_found: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a search has to look for nodes beyond the bound."""
        return self.is_looked_for and not self.is_found
