"""A retriever for LlamaIndex; `pip install 'omnigraph[llama-index]'` installs what it needs."""

from omnigraph.errors import LibraryMissingError
from omnigraph.retrieval import DEFAULT_PASSAGES, Passage, QueryGraph, Retrieval, build_hybrid_query

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise LibraryMissingError("'omnigraph[llama-index]'") from error

__all__ = ["OmnigraphNodeRetriever"]


class OmnigraphNodeRetriever(BaseRetriever):
    """Retrieve nodes by a query of a graph, one of whose parameters takes what is asked: see `Retrieval`.

    The column `text` is the text of a node, `id` its id and `score` its score; the other columns are its metadata,
    together with the commit that was read. `graph` is one of `open_graph` or `connect`.
    """

    def __init__(
        self, graph: QueryGraph, retrieval: Retrieval, *, callback_manager: CallbackManager | None = None
    ) -> None:
        self._graph = graph
        self._retrieval = retrieval
        super().__init__(callback_manager=callback_manager)

    @classmethod
    def hybrid(
        cls,
        graph: QueryGraph,
        type_name: str,
        *,
        text: str,
        vector: str | None = None,
        limit: int = DEFAULT_PASSAGES,
        branch: str = "main",
    ) -> "OmnigraphNodeRetriever":
        """Return a retriever that ranks the nodes of a type by the words of a text, and by a vector if there is one.

        Raises:
            BadArgumentError: A name is no name, or the limit is not positive.
        """
        query = build_hybrid_query(type_name, text=text, vector=vector, limit=limit)
        return cls(graph, Retrieval(query=query, branch=branch))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_build_node(passage) for passage in self._retrieval.run(self._graph, query_bundle.query_str)]


def _build_node(passage: Passage) -> NodeWithScore:
    node = TextNode(text=passage.text, metadata=passage.metadata)
    if passage.id is not None:
        node.id_ = passage.id
    return NodeWithScore(node=node, score=passage.score)
