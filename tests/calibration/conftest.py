"""Families import the harness by name: `tests/calibration/table.py` imports them, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
