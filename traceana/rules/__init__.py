"""The catalogue of causes. One module per rule; `registry.RULES` finds them; `traceana explain` prints them."""
