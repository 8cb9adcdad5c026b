"""The command line: `triptych run`, and one file for each other command."""
