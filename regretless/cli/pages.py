"""`regretless report` and `regretless export`: pages and tables of runs."""

from __future__ import annotations

from pathlib import Path

import click

from regretless.basics.extras import optional
from regretless.cli.group import INSTALL_BENCH, NEW_FILE, STORAGES, extensions, main
from regretless.run.result import Result


@main.command()
@click.argument("study")
@click.option("--storage", required=True, help=f"{STORAGES}.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder to write to; the study's name when not given.")
def export(study: str, storage: str, out: str | None) -> None:
    """Writes a study of any Optuna storage as CSV, JSON and an HTML page.

    \b
    Example:
      regretless export mine --storage sqlite:///study.db --out mine
    """
    exporter = optional("regretless.doors.optuna.export", "optuna")
    for path in exporter.export_study(storage, study, out or study):
        click.echo(path)


@main.command()
@click.argument("source", metavar="SOURCE")
@click.option("--study", help="Name of the study, where the storage has several.")
@click.option("--out", type=NEW_FILE, help="The page to write; by default beside the source, or named like the study.")
def report(source: str, study: str | None, out: str | None) -> None:
    """Writes one HTML page of a run, a study or a comparison.

    SOURCE is a checkpoint of `tune` or `minimize`, or a file of `Result.to_json`; an Optuna storage, with studies of
    any sampler (sqlite:///FILE, postgresql://..., journal:FILE, or the path of an SQLite file); or a folder of
    `bench run` or `reproduce`.

    \b
    Examples:
      regretless report run.npz
      regretless report sqlite:///study.db --study mine --out mine.html
      regretless report runs/first
    """
    from regretless.files.earlier import is_database
    from regretless.optimizer import Optimizer

    if Path(source).is_dir():
        if out is not None or study is not None:
            raise click.UsageError("a folder has its page inside: leave out --out and --study")
        if not extensions():
            raise click.ClickException(f"pages of folders need the distribution regretless-bench: {INSTALL_BENCH}")
        for extension in extensions():
            click.echo(extension.report(Path(source)))
        return
    if "://" in source or source.startswith("journal:") or is_database(Path(source)):
        storage = f"sqlite:///{source}" if is_database(Path(source)) else source
        exporter = optional("regretless.doors.optuna.export", "optuna")
        found = exporter.find_study(storage, study)
        click.echo(exporter.result_of_study(found).report(out or f"{Path(found.study_name).name}.html"))
        return
    if study is not None:
        raise click.UsageError("--study names a study of a storage; this is a file of one run")
    if not Path(source).is_file():
        raise click.UsageError(f"there is no file, folder or storage {source}")
    if Path(source).suffix == ".json":
        result = Result.from_json(source)
    else:
        result = Result.of(Optimizer.load(source))
    click.echo(result.report(out or Path(source).with_suffix(".html")))
