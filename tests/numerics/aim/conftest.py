"""The cases of `routes.py`, which is run by itself, are imported by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
