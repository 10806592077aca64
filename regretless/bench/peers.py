"""The peers, by name."""

from __future__ import annotations

from regretless.method import Recipe

PEERS: dict[str, Recipe] = {}
