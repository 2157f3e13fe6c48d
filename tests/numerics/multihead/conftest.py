"""The families of layers are imported by name: `acceptance.py`, which is run by itself, imports them, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
