"""A retriever for LangChain; `pip install 'omnigraph[langchain]'` installs what it needs."""

from collections.abc import Mapping
from typing import Any

from omnigraph.errors import LibraryMissingError
from omnigraph.retrieval import DEFAULT_PASSAGES, Passage, Retrieval, build_hybrid_query

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import Field
except ModuleNotFoundError as error:
    raise LibraryMissingError("'omnigraph[langchain]'") from error

__all__ = ["OmnigraphRetriever"]


class OmnigraphRetriever(BaseRetriever):
    """Retrieve documents by a query of a graph, whose parameter `question` takes what is asked.

    The column `text` is the content of a document and `id` its id; the other columns are its metadata, together with
    the commit that was read. `graph` is one of `open_graph` or `connect`.
    """

    graph: Any = Field(exclude=True, repr=False)
    query: str
    name_of_query: str | None = None
    question: str = "question"
    params: Mapping[str, Any] = Field(default_factory=dict)
    text_column: str = "text"
    id_column: str = "id"
    score_column: str = "score"
    branch: str = "main"
    snapshot: str | None = None

    @classmethod
    def hybrid(
        cls,
        graph: Any,  # noqa: ANN401 - a graph of either kind
        type_name: str,
        *,
        text: str,
        vector: str | None = None,
        limit: int = DEFAULT_PASSAGES,
        branch: str = "main",
    ) -> "OmnigraphRetriever":
        """Return a retriever that ranks the nodes of a type by the words of a text, and by a vector if there is one.

        Raises:
            BadArgumentError: A name is no name, or the limit is not positive.
        """
        return cls(
            graph=graph, query=build_hybrid_query(type_name, text=text, vector=vector, limit=limit), branch=branch
        )

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002 - the framework's signature
        retrieval = Retrieval(
            query=self.query,
            name=self.name_of_query,
            question=self.question,
            params=self.params,
            text_column=self.text_column,
            id_column=self.id_column,
            score_column=self.score_column,
            branch=self.branch,
            snapshot=self.snapshot,
        )
        return [_build_document(passage) for passage in retrieval.run(self.graph, query)]


def _build_document(passage: Passage) -> Document:
    score = {} if passage.score is None else {"score": passage.score}
    return Document(page_content=passage.text, id=passage.id, metadata={**passage.metadata, **score})
