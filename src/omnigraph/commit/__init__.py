"""The commit protocol: manifests, publishing, branches and tags, garbage collection and recovery."""
