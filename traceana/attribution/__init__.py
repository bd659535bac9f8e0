"""Where a cycle's time goes: cycles and their ledger. From a log alone; traces come with their readers."""
