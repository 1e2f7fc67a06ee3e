"""One module per plugin; siblings never import each other. `builtin` is the one table of them."""
