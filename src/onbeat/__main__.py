"""`python -m onbeat`."""

from onbeat.cli.main import main

main()
