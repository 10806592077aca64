"""Storages of every kind for the tests of the doors."""

from storages import grpc_port, postgres, storage_url  # noqa: F401
