"""Tests import the scripts beside them by name, as these import each other."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
