"""Where a cycle's time goes: cycles of traces, their phases, the ledger of each, and what ranks wait for."""
