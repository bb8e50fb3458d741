"""Register tags: names for commits that cleanup retains. Each is one row of main's manifest."""

from dataclasses import replace

from omnigraph.clock import format_instant
from omnigraph.commit.branch_errors import BranchExistsError, OutcomeUnknownError
from omnigraph.commit.branch_registry import change_registry
from omnigraph.commit.gc_horizon import check_reachable
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.commit.manifest_types import Manifest, Snapshot, TagRecord
from omnigraph.commit.ref_names import check_tag_name, check_untagged
from omnigraph.commit.tag_errors import TagMissingError


class TagRegistry:
    """The tags of one open graph. Creating or deleting one swaps main's manifest, without a commit."""

    def __init__(self, main: ManifestLog) -> None:
        self.main = main

    def list_records(self) -> list[TagRecord]:
        """Return all tags, sorted by name."""
        return [record for _, record in sorted(self.main.readable_head().snapshot.manifest.tags.items())]

    def find_record(self, name: str) -> TagRecord:
        """Return a tag by name.

        Raises:
            TagMissingError: There is no such tag.
        """
        return _find_tag(self.main.readable_head().snapshot.manifest, name)

    def create(self, name: str, snapshot: Snapshot, journal: ManifestLog, actor: str) -> TagRecord:
        """Create a tag for a state whose commit is in `journal`; cleanup retains it, even without its branch.

        Raises:
            BadArgumentError, TagExistsError, BranchExistsError: The name is invalid or in use.
            BranchGoneError, CommitCollectedError: The commit was removed in the meantime.
            OutcomeUnknownError: The store stopped answering; the tag may exist.
        """
        check_tag_name(name)
        store = self.main.store
        record = TagRecord(
            name=name,
            commit_id=snapshot.commit.id,
            branch=journal.branch,
            path=journal.path,
            seq=snapshot.commit.seq,
            created_at=format_instant(store.runtime.clock.now()),
            created_by=actor,
        )

        def add_tag(manifest: Manifest) -> Manifest:
            check_untagged(name, manifest.tags)
            # Tags and branches share one namespace, and the branch may have been created since the last try of the
            # swap.
            if name in manifest.live_branches:
                raise BranchExistsError(name, name)
            check_reachable(self.main, manifest, snapshot, journal)
            return replace(manifest, tags={**manifest.tags, name: record})

        try:
            change_registry(
                self.main,
                self.main.cached_head(),
                add_tag,
                lambda now: now.tags.get(name) == record,
                may_be_undone=True,
            )
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError.tag_outcome_unknown(name, error.reason) from error
        store.runtime.faults.reach("tag.registered")
        return record

    def delete(self, name: str) -> TagRecord:
        """Remove a tag and return its record. Its commit stays until a cleanup collects it.

        Raises:
            TagMissingError: There is no such tag.
            OutcomeUnknownError: The store stopped answering; the tag may be deleted.
        """
        head = self.main.head()
        record = _find_tag(head.snapshot.manifest, name)

        def remove_tag(manifest: Manifest) -> Manifest:
            # Deleted or replaced in the meantime: a tag that was created since must stay.
            if manifest.tags.get(name) != record:
                raise TagMissingError(name, tuple(sorted(manifest.tags)))
            return replace(manifest, tags={key: tag for key, tag in manifest.tags.items() if key != name})

        try:
            change_registry(self.main, head, remove_tag, lambda now: now.tags.get(name) != record)
        except OutcomeUnknownError as error:
            raise OutcomeUnknownError.tag_outcome_unknown(name, error.reason) from error
        return record


def _find_tag(manifest: Manifest, name: str) -> TagRecord:
    record = manifest.tags.get(name)
    if record is None:
        raise TagMissingError(name, tuple(sorted(manifest.tags)))
    return record
