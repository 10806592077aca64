"""The command `regretless`: names become objects, objects are called; no logic here."""

from regretless.cli import listing, pages, service, study, tune
from regretless.cli.group import extensions, main
from regretless.cli.target import load_function

__all__ = ["extensions", "listing", "load_function", "main", "pages", "service", "study", "tune"]
