"""What is known of a run, computed once, each fact with its provenance and evidence. Rules read only this."""
