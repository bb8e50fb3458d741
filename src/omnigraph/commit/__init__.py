"""The one way a change becomes visible: manifest, publisher, lineage, recovery."""
