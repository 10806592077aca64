"""The storages of the tests of the doors, for the hostile ones too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "doors"))

from storages import grpc_port, postgres, storage_url  # noqa: F401
