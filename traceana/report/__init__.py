"""Drawing a Diagnosis: terminal, Markdown, JSON. Nothing here computes."""
