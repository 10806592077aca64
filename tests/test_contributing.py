"""CONTRIBUTING.md speaks of the code as it is: its map, its walk through an ask, its example of a door."""

import re
import sys
from pathlib import Path
from types import FrameType

import regretless as rg

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "regretless"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def files_entered(method: str) -> set[str]:
    """The files of the library that the twenty-first ask of a run enters."""
    opt = rg.Optimizer({"lr": rg.Float(1e-5, 0.1, log=True), "x": rg.Float(-3, 7), "n": rg.Int(1, 9)}, method, seed=0)
    for i in range(20):
        opt.tell(opt.ask(), float(i % 7))
    found = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if PACKAGE in path.parents:
            found.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        opt.ask()
    finally:
        sys.setprofile(before)
    return found


def test_the_walk_names_the_files_of_an_ask() -> None:
    walk = PAGE.split("## One ask")[1].split("`tell` is shorter")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", walk))
    entered = {file for file in files_entered("gp-ucb") if not file.startswith("basics/")}
    assert named == entered
    assert len(named) < 20


def test_the_map_shows_every_room() -> None:
    shown = set(re.findall(r"^  ?(?: *)([\w.]+/?) {2,}\S|  ([\w]+(?:/|\.py))  ", PAGE.split("```")[1], re.MULTILINE))
    shown = {a or b for a, b in shown}
    rooms = {f"{p.name}/" if p.is_dir() else p.name for p in PACKAGE.iterdir() if not p.name.startswith(("_", "py."))}
    assert rooms <= shown, f"the map lacks {sorted(rooms - shown)}"
    assert all((PACKAGE / name).exists() or (ROOT / name).exists() for name in shown)


def test_the_example_of_a_door_gives_the_points_of_minimize() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, type] = {}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    bounds = {"x": (-3.7, 11.2), "y": (1e3, 1e3 + 0.7)}
    door, points = names["Searcher"](bounds, method="gp-ei", seed=4, budget=9), []
    for i in range(9):
        points.append(door.suggest(i))
        door.done(i, -((points[-1]["x"] - 1) ** 2))
    space = {name: rg.Float(*pair) for name, pair in bounds.items()}
    result = rg.maximize(lambda x, y: -((x - 1) ** 2), space, trials=9, method="gp-ei", seed=4, progress=False)
    assert [t.params for t in result.trials] == points
