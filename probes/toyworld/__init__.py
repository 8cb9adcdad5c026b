from pathlib import Path

SPECIMENS = ("toyworld", "toyworld-mirror", "toyworld-null")
WEIGHTS = Path(__file__).parent / "weights"
