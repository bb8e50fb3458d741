"""States, branches and the past of a graph behind a server."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from omnigraph.commit.manifest_types import Commit
from omnigraph.ops.branch import Branch
from omnigraph.ops.change_feed import POLL_SECONDS, ChangesCall
from omnigraph.ops.history import CommitPage
from omnigraph.ops.revision import AcceptedSchema
from omnigraph.ops.session import ANONYMOUS
from omnigraph.ops.tag import Tag
from omnigraph.server.client import responses as answers
from omnigraph.server.client.changes import RemoteChange, RemoteDiff, RemoteFeed
from omnigraph.server.client.http_transport import quote_path
from omnigraph.server.client.requests import GraphCalls, check_actor, format_optional_instant
from omnigraph.server.client.responses import RemoteDocument, RemoteSnapshot
from omnigraph.server.http.paging import MAX_PAGE_ITEMS


class RemoteHistory:
    """What a graph behind a server can tell of its states; each method is that of `HistoryVerbs`, which says more."""

    _calls: GraphCalls

    @property
    def schema(self) -> str:
        """The text of the schema that is accepted now."""
        return self.accepted_schema().source

    def accepted_schema(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> AcceptedSchema:
        """The schema of a state."""
        said = self._calls.get("schema", branch=branch, snapshot=snapshot, at=format_optional_instant(at))
        return AcceptedSchema(
            branch=said["branch"],
            commit_id=said["commit_id"],
            id=said["schema_id"],
            fingerprint=said["schema_fingerprint"],
            source=said["schema"],
        )

    def snapshot(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> RemoteSnapshot:
        """Which tables a state has, at which versions."""
        return RemoteSnapshot(
            self._calls.get("snapshot", branch=branch, snapshot=snapshot, at=format_optional_instant(at))
        )

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
    ) -> list[Commit]:
        """The history of a branch, or the commits of all branches, newest first."""
        page = self.commit_page(branch=branch, filters=filters, limit=limit, before=before, all_branches=all_branches)
        return list(page.commits)

    def commit_page(
        self,
        *,
        branch: str = "main",
        filters: Mapping[str, str] | None = None,
        limit: int | None = None,
        before: str | None = None,
        all_branches: bool = False,
    ) -> CommitPage:
        """As `commits`, with which of them cleanup has collected, and what to ask for to get the next page."""
        given = [f"{name}={value}" for name, value in (filters or {}).items()]
        size = MAX_PAGE_ITEMS if limit is None else min(limit, MAX_PAGE_ITEMS)
        said: list[answers.Document] = []
        asked = {"branch": branch, "filter": given or None, "before": before, "all_branches": all_branches or None}
        for page in self._calls.iter_pages("commits", **asked, limit=size):
            said += page["commits"]
            if limit is not None and len(said) >= limit:
                break
        found = [answers.decode_commit(one) for one in said[:limit]]
        is_full = bool(found) and len(found) == limit and found[-1].parent is not None
        return CommitPage(
            commits=tuple(found),
            collected=frozenset(one["id"] for one in said[:limit] if one["collected"]),
            next=found[-1].id if is_full else None,
        )

    def commit(self, commit_id: str, *, branch: str | None = None) -> Commit:
        """One commit, of any branch or of one."""
        return answers.decode_commit(self._calls.get("commits", commit_id, branch=branch))

    def commit_changes(
        self, commit_id: str, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> RemoteChange:
        """What one commit changed against its first parent; rows are fetched when they are asked for."""
        rest = f"commits{quote_path(commit_id)}/changes"
        said = self._calls.get(rest, branch=branch, types=types, counts=True)
        return RemoteChange(self._calls, said, branch, types)

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
        """The commits of a branch after `since`, oldest first, each exactly once, as what they changed.

        With `follow` the server tells of each commit when it comes; `poll_seconds` does not matter.
        """
        call = ChangesCall(since=since, types=types, limit=limit, follow=follow, poll_seconds=poll_seconds)
        return RemoteFeed(self._calls, branch, call)

    def history(self, type_name: str, id: str, *, branch: str = "main", limit: int | None = None) -> RemoteDocument:
        """Every version that one node or edge has had on a branch, newest first."""
        return RemoteDocument(self._calls.get("history", type=type_name, id=id, branch=branch, limit=limit))

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None) -> RemoteDiff:
        """What differs between two states; found when it is asked for."""
        return RemoteDiff.from_states(self._calls, before, after, types)


class RemoteBranches:
    """The branches of a graph behind a server."""

    def __init__(self, calls: GraphCalls) -> None:
        self._calls = calls

    def list(self) -> list[Branch]:
        """All branches, main first and the others by name."""
        return [answers.decode_branch(one) for page in self._calls.iter_pages("branches") for one in page["branches"]]

    def create(
        self,
        name: str,
        *,
        from_: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        actor: str = ANONYMOUS,
    ) -> Branch:
        """A new branch; see `GraphBranches.create`."""
        check_actor(actor)
        body = {"name": name, "from": from_, "snapshot": snapshot, "at": format_optional_instant(at)}
        return answers.decode_branch(self._calls.post("branches", body))

    def delete(self, name: str) -> Branch:
        """Delete a branch; what it was. See `GraphBranches.delete`."""
        return answers.decode_branch(self._calls.delete("branches", name))


class RemoteTags:
    """The tags of a graph behind a server."""

    def __init__(self, calls: GraphCalls) -> None:
        self._calls = calls

    def list(self) -> list[Tag]:
        """All tags of branches that the token's owner may read, by name."""
        return [Tag(**one) for page in self._calls.iter_pages("tags", limit=MAX_PAGE_ITEMS) for one in page["tags"]]

    def create(self, name: str, ref: str = "main", *, actor: str = ANONYMOUS) -> Tag:
        """Name the state that `ref` stands for now; see `GraphTags.create`."""
        check_actor(actor)
        return Tag(**self._calls.post("tags", {"name": name, "ref": ref}))

    def delete(self, name: str) -> Tag:
        """Delete a tag; what it was. See `GraphTags.delete`."""
        return Tag(**self._calls.delete("tags", name))
