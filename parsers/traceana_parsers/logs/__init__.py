"""Log readers. `scan` reads blocks and knows no engine; the engines' line grammars are tables beside it."""
