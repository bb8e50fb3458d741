"""The tags of a graph: names for commits, which cleanup keeps. Each is one row of main's manifest."""

from dataclasses import replace

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import BranchExistsError
from omnigraph.commit.branch_registry import change_registry
from omnigraph.commit.gc_horizon import check_reachable
from omnigraph.commit.manifest_log import ManifestLog, OutcomeUnknownError
from omnigraph.commit.manifest_types import Manifest, Snapshot, TagRecord
from omnigraph.commit.ref_names import check_tag_name, check_untagged
from omnigraph.commit.tag_errors import TagMissingError, TagOutcomeUnknownError


class TagRegistry:
    """All tags of one open graph. Making and deleting one is a swap of main's manifest, and no commit."""

    def __init__(self, main: ManifestLog) -> None:
        self.main = main

    def list_records(self) -> list[TagRecord]:
        """Every tag, by name."""
        return [record for _, record in sorted(self.main.readable_head().snapshot.manifest.tags.items())]

    def find_record(self, name: str) -> TagRecord:
        """One tag, or TagMissingError."""
        return _find_tag(self.main.readable_head().snapshot.manifest, name)

    def create(self, name: str, found: Snapshot, journal: ManifestLog, actor: str) -> TagRecord:
        """Name a state whose commit a journal has; from then on cleanup keeps it, whatever becomes of its branch.

        Raises:
            BadTagNameError, TagExistsError, BranchExistsError: The name won't do.
            BranchGoneError, CommitCollectedError: The commit went meanwhile.
            TagOutcomeUnknownError: The store stopped answering; it may be there.
        """
        check_tag_name(name)
        store = self.main.store
        record = TagRecord(
            name=name,
            commit_id=found.commit.id,
            branch=journal.branch,
            path=journal.path,
            seq=found.commit.seq,
            created_at=format_instant(store.runtime.clock.now()),
            created_by=actor,
        )

        def added(manifest: Manifest) -> Manifest:
            check_untagged(name, manifest.tags)
            if name in manifest.live_branches:
                raise BranchExistsError(name, name)
            check_reachable(self.main, manifest, found, journal)
            return replace(manifest, tags={**manifest.tags, name: record})

        try:
            change_registry(
                self.main, self.main.cached_head(), added, lambda now: now.tags.get(name) == record, may_be_undone=True
            )
        except OutcomeUnknownError as error:
            raise TagOutcomeUnknownError(name, error.reason) from error
        store.runtime.faults.reach("tag.registered")
        return record

    def delete(self, name: str) -> TagRecord:
        """Remove a tag; what it was. Its commit stays until a cleanup takes it.

        Raises:
            TagMissingError: There is none of that name.
            TagOutcomeUnknownError: The store stopped answering; it may be gone.
        """
        head = self.main.head()
        record = _find_tag(head.snapshot.manifest, name)

        def removed(manifest: Manifest) -> Manifest:
            if manifest.tags.get(name) != record:  # it is gone, or another one by now: that one stays
                raise TagMissingError(name, tuple(sorted(manifest.tags)))
            return replace(manifest, tags={key: one for key, one in manifest.tags.items() if key != name})

        try:
            change_registry(self.main, head, removed, lambda now: now.tags.get(name) != record)
        except OutcomeUnknownError as error:
            raise TagOutcomeUnknownError(name, error.reason) from error
        return record


def _find_tag(manifest: Manifest, name: str) -> TagRecord:
    record = manifest.tags.get(name)
    if record is None:
        raise TagMissingError(name, tuple(sorted(manifest.tags)))
    return record
