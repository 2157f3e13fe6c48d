"""Tests import the cells by name: the table of the documentation is printed from them, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
