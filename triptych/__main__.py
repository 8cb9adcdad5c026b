"""``python -m triptych``."""

from triptych.cli.main import program

if __name__ == "__main__":
    program()
