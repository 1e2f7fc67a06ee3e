"""`python -m moorage`."""

from moorage.cli.main import main

main()
