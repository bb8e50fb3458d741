"""Define the error of a location that is not free."""

from omnigraph.errors import Kind, OmnigraphError, variant


class PlaceTakenError(OmnigraphError):
    """The location is not empty: it holds a graph, or files that are not part of one."""

    kind = Kind.CONFLICT
    code = "place_taken"
    uri: str
    found: str
    message = "{uri} holds {found}; choose an empty location, or remove it first"

    @variant
    def graph_exists(self, graph: str) -> str:
        """Report that the name of a new graph of a server is taken, or about to be."""
        return f"there is a graph `{graph}` already, or files where it would be: choose another name"

    @variant
    def clone_busy(self, uri: str, seconds: float) -> str:
        """Report that another clone or backup is being written to the same location."""
        return (
            f"another clone or backup is being written to {uri}: wait for it, or choose another location;"
            f" if it has died, try again in {seconds:.0f} seconds"
        )
