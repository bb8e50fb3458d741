"""Judge texts by the words that they share with a query: without model or network, and deterministic."""

from collections.abc import Sequence

from omnigraph.engine.search.tokenizer import tokenize


class OverlapReranker:
    """A reranker whose score is the share of the query's stems that a text has, from 0 to 1.

    It suits tests and demos; it knows no meanings.
    """

    name = "overlap"

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the share for each text; 0 for a query without words."""
        wanted = {word.stem for word in tokenize(query)}
        return [len(wanted & {word.stem for word in tokenize(text)}) / max(len(wanted), 1) for text in texts]
