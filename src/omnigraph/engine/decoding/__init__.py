"""From files and records to typed Arrow rows, strictly, and fast where nothing is doubtful."""
