"""Snapshots, branches, tags and the history of a graph on a server."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from omnigraph.commit.manifest_types import Commit
from omnigraph.json_struct import decode_struct
from omnigraph.ops.branch import Branch
from omnigraph.ops.change_feed import POLL_SECONDS, ChangesCall
from omnigraph.ops.history import CommitPage
from omnigraph.ops.revision import AcceptedSchema
from omnigraph.ops.session import ANONYMOUS
from omnigraph.ops.tag import Tag
from omnigraph.server.client.changes import RemoteChange, RemoteDiff, RemoteFeed
from omnigraph.server.client.http_transport import quote_path
from omnigraph.server.client.requests import GraphCalls, build_state, check_actor, format_optional_instant
from omnigraph.server.client.responses import Document, RemoteDocument, RemoteSnapshot
from omnigraph.server.http.paging import MAX_PAGE_ITEMS


class RemoteHistory:
    """The states and history of a graph on a server. Each method is documented in `HistoryVerbs`."""

    _calls: GraphCalls

    @property
    def schema(self) -> str:
        """The text of the current schema of main."""
        return self.accepted_schema().source

    def accepted_schema(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> AcceptedSchema:
        """Return the schema of a state."""
        document = self._calls.get("schema", **build_state(branch, snapshot, at))
        return AcceptedSchema(
            branch=document["branch"],
            commit_id=document["commit_id"],
            id=document["schema_id"],
            fingerprint=document["schema_fingerprint"],
            source=document["schema"],
        )

    def snapshot(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> RemoteSnapshot:
        """Return the tables of a state, with their versions."""
        return RemoteSnapshot(self._calls.get("snapshot", **build_state(branch, snapshot, at)))

    @property
    def branches(self) -> "RemoteBranches":
        """The graph's branches: list, create, delete."""
        return RemoteBranches(self._calls)

    @property
    def tags(self) -> "RemoteTags":
        """The graph's tags: list, create, delete."""
        return RemoteTags(self._calls)

    def commits(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
        include_maintenance: bool = False,
    ) -> list[Commit]:
        """List the commits of a branch, or of all branches, newest first."""
        page = self.commit_page(
            branch=branch,
            filters=filters,
            limit=limit,
            before=before,
            all_branches=all_branches,
            include_maintenance=include_maintenance,
        )
        return list(page.commits)

    def commit_page(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
        include_maintenance: bool = False,
    ) -> CommitPage:
        """Return what `commits` lists, with which of them cleanup has collected and where the next page begins."""
        filter_terms = [f"{name}={value}" for name, value in (filters or {}).items()]
        page_size = MAX_PAGE_ITEMS if limit is None else min(limit, MAX_PAGE_ITEMS)
        documents: list[Document] = []
        query = {
            "branch": branch,
            "filter": filter_terms or None,
            "before": before,
            "all_branches": all_branches or None,
            "include_maintenance": include_maintenance or None,
        }
        for page in self._calls.iter_pages("commits", **query, limit=page_size):
            documents += page["commits"]
            if limit is not None and len(documents) >= limit:
                break
        # The last page may have more commits than are still needed.
        documents = documents[:limit]
        commits = [decode_struct(Commit, document) for document in documents]
        # A commit without a parent is the oldest one: there is no next page.
        is_full = bool(commits) and len(commits) == limit and commits[-1].parent is not None
        return CommitPage(
            commits=tuple(commits),
            collected=frozenset(document["id"] for document in documents if document["collected"]),
            next=commits[-1].id if is_full else None,
        )

    def commit(self, commit_id: str, *, branch: str | None = None) -> Commit:
        """Return a commit by its id, from any branch or only from `branch`."""
        return decode_struct(Commit, self._calls.get("commits", commit_id, branch=branch))

    def commit_changes(
        self, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> RemoteChange:
        """Return what one commit changed relative to its first parent; rows are fetched on demand."""
        # Only the counts: the rows of a commit may be too large for one JSON response.
        rest = f"commits{quote_path(commit_id)}/changes"
        document = self._calls.get(rest, branch=branch, types=types, counts=True)
        return RemoteChange(self._calls, document, branch, types)

    def changes(
        self,
        *,
        branch: str = "main",
        since: str | None = None,
        types: Sequence[str] | None = None,
        limit: int | None = None,
        follow: bool = False,
        poll_seconds: float = POLL_SECONDS,
    ) -> RemoteFeed:
        """Open the change feed of a branch: the changes of each commit after `since`, oldest first, exactly once.

        With `follow` the server reports each new commit as it is made; `poll_seconds` has no effect.
        """
        call = ChangesCall(since=since, types=types, limit=limit, follow=follow, poll_seconds=poll_seconds)
        return RemoteFeed(self._calls, branch, call)

    def history(self, type_name: str, id: str, *, branch: str = "main", limit: int | None = None) -> RemoteDocument:
        """Return every version that a node or edge has had on a branch, newest first."""
        return RemoteDocument(self._calls.get("history", type=type_name, id=id, branch=branch, limit=limit))

    def diff(
        self, before: str, after: str, *, types: Sequence[str] | None = None, base: str | None = None
    ) -> RemoteDiff:
        """Compare two states; differences are fetched on demand."""
        return RemoteDiff.from_states(self._calls, before, after, types, base)


class RemoteBranches:
    """The branches of a graph on a server."""

    def __init__(self, calls: GraphCalls) -> None:
        self._calls = calls

    def list(self) -> list[Branch]:
        """List all branches, main first and the others by name."""
        pages = self._calls.iter_pages("branches")
        return [decode_struct(Branch, document) for page in pages for document in page["branches"]]

    def create(
        self,
        name: str,
        *,
        from_: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        actor: str = ANONYMOUS,
    ) -> Branch:
        """Create a branch; see `GraphBranches.create`."""
        check_actor(actor)
        body = {"name": name, "from": from_, "snapshot": snapshot, "at": format_optional_instant(at)}
        return decode_struct(Branch, self._calls.post("branches", body))

    def delete(self, name: str) -> Branch:
        """Delete a branch, and return its last state. See `GraphBranches.delete`."""
        return decode_struct(Branch, self._calls.delete("branches", name))


class RemoteTags:
    """The tags of a graph on a server."""

    def __init__(self, calls: GraphCalls) -> None:
        self._calls = calls

    def list(self) -> list[Tag]:
        """List the tags of all branches that the token's owner may read, by name."""
        pages = self._calls.iter_pages("tags", limit=MAX_PAGE_ITEMS)
        return [decode_struct(Tag, document) for page in pages for document in page["tags"]]

    def create(self, name: str, ref: str = "main", *, actor: str = ANONYMOUS) -> Tag:
        """Tag the state that `ref` names now; see `GraphTags.create`."""
        check_actor(actor)
        return decode_struct(Tag, self._calls.post("tags", {"name": name, "ref": ref}))

    def delete(self, name: str) -> Tag:
        """Delete a tag, and return it. See `GraphTags.delete`."""
        return decode_struct(Tag, self._calls.delete("tags", name))
