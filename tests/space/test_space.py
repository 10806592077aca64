"""Spaces: round trips over odd boxes, equal shares, and errors that name the parameter."""

import decimal
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regretless as rg
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int, ends_of

FINITE = st.floats(-1e300, 1e300, allow_nan=False)
POSITIVE = st.floats(1e-300, 1e300)


@st.composite
def floats(draw):
    if draw(st.booleans()):
        low, high = sorted(draw(st.lists(POSITIVE, min_size=2, max_size=2, unique_by=math.log)))
        return Float(low, high, log=True)
    low, high = sorted(draw(st.lists(FINITE, min_size=2, max_size=2, unique=True)))
    return Float(low, high)


@st.composite
def stepped(draw):
    low = draw(st.floats(-1e6, 1e6))
    step = draw(st.floats(1e-3, 1e3))
    return Float(low, low + step * draw(st.integers(1, 500)), step=step)


@st.composite
def ints(draw):
    low = draw(st.integers(1, 10**6) if (log := draw(st.booleans())) else st.integers(-(10**9), 10**9))
    high = low + draw(st.integers(1, 10**6))
    return Int(low, high, log=log, step=1 if log else draw(st.integers(1, high - low)))


@given(floats(), st.floats(0, 1))
def test_float_round_trip_in_value(parameter: Float, u: float) -> None:
    value = parameter.from_unit(u)
    assert parameter.low <= value <= parameter.high
    again = parameter.from_unit(parameter.to_unit(value))
    if parameter.log:
        assert math.log(again) == pytest.approx(math.log(value), rel=1e-9, abs=1e-9)
    else:
        assert again == pytest.approx(value, rel=1e-9, abs=1e-9 * max(abs(parameter.low), abs(parameter.high)))


@given(st.one_of(stepped(), ints()), st.floats(0, 1))
def test_grids_round_trip_exactly(parameter: Float | Int, u: float) -> None:
    value = parameter.from_unit(u)
    assert parameter.low <= value <= parameter.high
    centre = parameter.to_unit(value)
    assert parameter.from_unit(centre) == value
    assert centre == float(parameter.axis.snap(np.array([u]))[0])


@given(st.integers(2, 40), st.integers(-50, 50))
@settings(max_examples=30)
def test_integers_get_equal_shares(k: int, low: int) -> None:
    parameter = Int(low, low + k - 1)
    values = [parameter.from_unit(u) for u in (np.arange(k * 20) + 0.5) / (k * 20)]
    assert values == [low + i for i in range(k) for _ in range(20)]


def test_log_integers_get_shares_equal_on_the_log_scale() -> None:
    parameter = Int(1, 1000, log=True)
    values = np.array([parameter.from_unit(u) for u in np.linspace(0, 1, 3001)])
    assert np.median(values) == pytest.approx(math.sqrt(0.5 * 1000.5), rel=0.05)
    assert values[0] == 1
    assert values[-1] == 1000


@pytest.mark.parametrize(("low", "high"), [(1e-2, 0.5), (1e-3, 1e3), (3e-5, 0.7), (0.1, 0.3), (2.3e-308, 1.7e308)])
def test_the_ends_of_a_log_range_are_the_numbers_that_were_written(low: float, high: float) -> None:
    parameter = Float(low, high, log=True)
    assert (parameter.from_unit(0.0), parameter.from_unit(1.0)) == (low, high)
    assert (parameter.to_unit(low), parameter.to_unit(high)) == (0.0, 1.0)
    whole = Space({"x": parameter})
    assert [whole.decode(np.array([u]))["x"] for u in (0.0, 1.0)] == [low, high]
    assert parameter.to_unit(max(math.exp(math.log(low)), low)) == 0.0  # as earlier files have it


def test_choices_in_both_encodings_keep_their_order_and_type() -> None:
    space = Space({"c": Choice(["a", 1, True, None, (2, 3)]), "x": Float(2, 3)})
    for label in ("a", 1, True, None, (2, 3)):
        for encoding in ("shares", "onehot"):
            u = space.encode({"c": label, "x": 2.5}, encoding)
            assert space.cube(encoding).dim == len(u) == (2 if encoding == "shares" else 6)
            back = space.decode(u, encoding)
            assert back["c"] == label
            assert type(back["c"]) is type(label)
            assert np.array_equal(space.cube(encoding).snap(u), u)


@given(
    st.lists(st.one_of(floats(), stepped(), ints(), st.just(Choice(["p", "q", "r"]))), min_size=1, max_size=6),
    st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_a_decoded_point_encodes_to_its_snapped_self(parameters: list[Float | Int | Choice], seed: int) -> None:
    space = Space({f"p{i}": p for i, p in enumerate(parameters)})
    u = np.random.default_rng(seed).random(len(parameters))
    params = space.decode(u)
    again = space.encode(params)
    snapped = space.cube().snap(u)
    grids = space.cube().discrete
    assert np.array_equal(again[grids], snapped[grids])
    scalar = {name: p.from_unit(float(v)) for (name, p), v in zip(space.parameters.items(), u, strict=True)}
    assert params.keys() == scalar.keys()
    for name in params:
        assert params[name] == scalar[name] or params[name] == pytest.approx(scalar[name], rel=1e-12)


def test_a_range_without_a_logarithmic_width_is_refused() -> None:
    with pytest.raises(ValueError, match="the same logarithm"):
        Float(1e-300, math.nextafter(1e-300, 1), log=True)


def test_a_list_of_pairs_is_a_space_of_numbers() -> None:
    space = Space([(-5, 10), (0, 15)])
    assert space.as_array
    assert space.names == ("x0", "x1")
    assert np.allclose(list(space.decode(np.array([0.5, 1.0])).values()), [2.5, 15])
    assert np.allclose(space.encode([2.5, 15.0]), [0.5, 1.0])


def test_toml(tmp_path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        '[lr]\ntype = "float"\nlow = 1e-5\nhigh = 0.1\nlog = true\n[n]\ntype = "int"\nlow = 1\nhigh = 9\nstep = 2\n'
        '[act]\ntype = "choice"\nlabels = ["relu", "tanh"]\n'
    )
    assert Space(path) == Space(
        {"lr": Float(1e-5, 0.1, log=True), "n": Int(1, 9, step=2), "act": Choice(["relu", "tanh"])}
    )


def test_json_round_trip() -> None:
    space = Space(
        {
            "lr": Float(1e-5, 0.1, log=True),
            "s": Float(0, 1, step=0.25),
            "n": Int(1, 9, step=2),
            "act": Choice(["relu", None, 3]),
        }
    )
    assert Space.from_json(space.to_json()) == space


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Float(3, 1), "low must not be above high"),
        (lambda: Float(0, 1, log=True), "log needs low > 0"),
        (lambda: Float(float("nan"), 1), "low must be a finite number"),
        (lambda: Float(0, float("inf")), "high must be a finite number"),
        (lambda: Float(0, 1, step=0), "step must be a positive number"),
        (lambda: Float(1, 2, log=True, step=0.1), "exclude each other"),
        (lambda: Int(0, 1.5), "high must be a whole number"),
        (lambda: Int(0, 10, step=11), "step must be"),
        (lambda: Int(0, 2**60), "more than a coordinate can tell apart"),
        (lambda: Choice([]), "at least one label"),
        (lambda: Choice(["a", "a"]), "must differ"),
        (lambda: Choice([[1]]), "hashable"),
        (lambda: Choice("ab"), "list of labels"),
        (lambda: Space({}), "empty"),
        (lambda: Space({"a": [1, 2, 3]}), "parameter 'a'"),
        (lambda: Space({"a": (1, 10)}), r"Float\(1, 10\) or Int\(1, 10\) for a range, Choice\(\[1, 10\]\)"),
        (lambda: Space({"a": [16, 32]}), r"can mean a range or two values"),
        (lambda: Space([(2, 1)]), "parameter 'x0'"),
        (lambda: Space([Choice(["a"])]), "use a mapping"),
        (lambda: Space(7), "must be a mapping"),
        (lambda: Cube.box(0), "dim must be"),
    ],
)
def test_bad_spaces_say_what_is_wrong(build, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[lr]\ntype = "float"\nlow = 1\nhigh = 0', "parameter 'lr'.*low must not be above high"),
        ('[lr]\ntype = "float"\nlow = 1\nhigh = 2\nlogg = true', "parameter 'lr'.*unknown keys.*logg"),
        ('[lr]\ntype = "float"\nlow = 1', "parameter 'lr'.*missing keys.*high"),
        ("[lr]\nlow = 1\nhigh = 2", "parameter 'lr': type is missing; it is one of choice, float, int"),
        ('[lr]\ntype = "real"', "parameter 'lr'.*type must be one of"),
        ("lr = 3", "parameter 'lr'.*expected a table"),
        ('[lr]\ntype = "float"\nlow = "a"\nhigh = 2', "parameter 'lr'.*low must be a finite number"),
        ('[lr]\ntype = "float"\nlow = 1\nhigh = 2\nlog = "yes"', "parameter 'lr'.*log must be true or false"),
        ('[lr]\ntype = "choice"\nlabels = []', "parameter 'lr'.*at least one label"),
        ("[lr", "not valid TOML"),
        ("", "empty"),
    ],
)
def test_bad_toml_names_the_file_and_the_parameter(tmp_path, text: str, words: str) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"(?s){words}"):
        Space(path)


def test_params_that_do_not_fit_are_refused() -> None:
    space = Space({"a": Float(0, 1), "n": Int(0, 8, step=4), "c": Choice(["x"])})
    for params, words in (
        ({"a": 2, "n": 0, "c": "x"}, "parameter 'a'"),
        ({"a": 0.5, "n": 3, "c": "x"}, "parameter 'n'"),
        ({"a": 0.5, "n": 4, "c": "y"}, "parameter 'c'"),
        ({"a": 0.5, "n": 4}, "missing"),
        ({"a": 0.5, "n": 4, "c": "x", "z": 1}, "no parameter 'z'"),
    ):
        with pytest.raises(ValueError, match=words):
            space.encode(params)


# ---------------------------------------------------------------- identity


@st.composite
def awkward_spaces(draw):
    kinds = st.one_of(floats(), stepped(), ints(), st.just(Choice(["a", 1, None])), st.just(Int(3, 3)), st.just(7.5))
    names = draw(st.lists(st.text("abxyz0123456789", min_size=1, max_size=4), min_size=1, max_size=5, unique=True))
    return Space({name: draw(kinds) for name in names})


@given(awkward_spaces(), st.integers(0, 2**32), st.sampled_from(["shares", "onehot"]))
@settings(max_examples=300)
def test_a_setting_has_one_place_that_survives_every_round_trip(space: Space, seed: int, encoding) -> None:
    """cube -> setting -> cube is the identity on canonical points, also when the setting's order or storage changed."""
    cube = space.cube(encoding)
    for u in cube.snap(np.random.default_rng(seed).random((8, cube.dim))):
        params = space.decode(u, encoding)
        stored = json.loads(json.dumps(params))
        again = space.encode(dict(reversed(stored.items())), encoding)
        assert again.tobytes() == u.tobytes()
        assert cube.key(again) == cube.key(u)
        assert space.decode(again, encoding) == params
        assert list(params) == list(space.names)


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e9), st.floats(0, 1))
def test_narrow_ranges_far_from_zero_keep_their_identity(low: float, width: float, u: float) -> None:
    if low + width > low:
        parameter = Float(low, low + width)
        place = float(parameter.axis.snap(np.array(u)))
        assert parameter.to_unit(parameter.from_unit(place)) == place


def test_the_order_in_which_parameters_are_written_does_not_matter() -> None:
    parameters = {"x10": Float(0, 3), "b": Int(2, 7), "x2": Float(1e-3, 1, log=True)}
    one, other = Space(parameters), Space(dict(reversed(parameters.items())))
    assert one.coordinates == other.coordinates == ("b", "x2", "x10")
    u = one.cube().snap(np.random.default_rng(0).random(3))
    assert one.decode(u) == other.decode(u)


def test_fixed_parameters_and_decimal_steps() -> None:
    space = Space({"n": Int(3, 3), "x": Float(2.5, 2.5), "name": "adam", "flag": False, "s": Float(0, 1, step=0.3)})
    assert space.decode(np.full(5, 0.9)) == {"n": 3, "x": 2.5, "name": "adam", "flag": False, "s": 0.9}
    assert [Float(0, 1, step=0.3).from_unit(u) for u in (0.1, 0.3, 0.6, 0.9)] == [0.0, 0.3, 0.6, 0.9]


@pytest.mark.parametrize("low", [5e-324, 1e-310])
def test_numbers_without_digits_are_refused_on_a_log_scale(low: float) -> None:
    with pytest.raises(ValueError, match="too few digits for log"):
        Float(low, 1e-300, log=True)
    assert Float(low, 1e-300).high == 1e-300
    whole = Float(2.3e-308, 1e-300, log=True)
    for u in (0.0, 2.0**-40, 0.3, 1.0):
        place = whole.to_unit(whole.from_unit(u))
        assert whole.to_unit(whole.from_unit(place)) == place


@pytest.mark.parametrize(("low", "high", "log"), [(0.0, 1.0, False), (-3.0, 900.0, False), (1e-6, 1e3, True)])
def test_an_open_range_leaves_its_bounds_out(low: float, high: float, log: bool) -> None:
    parameter = Float(low, high, log=log, open=True)
    ends = parameter.from_unit(0.0), parameter.from_unit(1.0)
    assert low < ends[0] < ends[1] < high
    middle = Float(low, high, log=log).from_unit(0.5)
    assert parameter.from_unit(0.5) == pytest.approx(middle)
    assert parameter.to_unit(middle) == pytest.approx(0.5)
    space = Space({"x": parameter})
    assert Space.from_json(space.to_json()) == space
    with pytest.raises(ValueError, match="not a number within"):
        parameter.to_unit(low)
    with pytest.raises(ValueError, match="open is for ranges without steps"):
        Float(0, 1, step=0.1, open=True)
    with pytest.raises(ValueError, match="no room inside"):
        Float(1.0, float(np.nextafter(1.0, 2.0)), open=True)


def test_an_open_range_in_toml(tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text('[p]\ntype = "float"\nlow = 0\nhigh = 1\nopen = true\n')
    assert Space(tmp_path / "space.toml").parameters["p"] == Float(0, 1, open=True)
    (tmp_path / "space.toml").write_text('[p]\ntype = "float"\nlow = 0\nhigh = 1\nopen = "yes"\n')
    with pytest.raises(ValueError, match="open must be true or false, got 'yes'"):
        Space(tmp_path / "space.toml")


def test_labels_that_cannot_be_compared_differ() -> None:
    choice = Choice([np.float64("nan"), 10**400, 1 + 2j])
    assert [choice.index(label) for label in choice.labels] == [0, 1, 2]
    with pytest.raises(ValueError, match="not one of the labels"):
        choice.index(np.float64(1.5))


@pytest.mark.parametrize(
    "parameter", [Int(0, 10, step=4), Int(3, 9), Float(-1.5, 2.6, step=0.5), Float(-2, 7), Int(-7, -7)], ids=str
)
def test_values_lie_on_the_line_between_the_ends_of_their_axis(parameter: Float | Int) -> None:
    """Also where the last step does not reach the upper bound."""
    low, high = ends_of(parameter)
    for u in parameter.axis.snap(np.linspace(0.0, 1.0, 9)):
        assert (parameter.from_unit(float(u)) - low) / (high - low) == pytest.approx(float(u), abs=1e-12)


def test_a_prior_peaks_at_the_place_of_its_mean() -> None:
    p = Int(0, 10, step=4, prior=(4, 1))
    belief = Space({"n": p}).cube().belief
    assert belief is not None
    assert belief.peak == {0: pytest.approx(p.to_unit(4))}


def test_the_decimal_context_of_a_program_changes_no_step() -> None:
    parameter = rg.Float(1000.0, 2000.0, step=0.25)
    before = [parameter.from_unit(u) for u in np.linspace(0, 1, 50)]
    with decimal.localcontext(prec=4, rounding=decimal.ROUND_UP, traps=[decimal.Inexact]):
        assert [parameter.from_unit(u) for u in np.linspace(0, 1, 50)] == before
    assert len(set(before)) == 50


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".".join(["a"] * 20_000) + " = 1", "a name has more than 100 parts"),
        ('["' + '"."'.join(["a"] * 20_000) + '"]', "a name has more than 100 parts"),
        ("[x]\ntype = 'int'\nlow = 0\nhigh = " + "9" * 5000, "is not valid TOML"),
        ("where = ['" + "<=".join(["x"] * 6000) + "']\n[x]\ntype='float'\nlow=0\nhigh=1", "letters, more than 10000"),
        ("where = ['x <= \"a\" * 10**9']\n[x]\ntype='float'\nlow=0\nhigh=1", "reckons with a text"),
    ],
)
def test_files_made_to_exhaust_their_reader_are_refused_at_once(text: str, words: str, tmp_path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(ValueError, match=words) as refused:
        Space(path)
    assert time.process_time() - began < 2.0
    assert len(str(refused.value)) < 400


def test_a_rule_that_reckons_with_labels_is_named() -> None:
    space = Space({"c": rg.Choice(["a", "b"]), "x": rg.Float(0, 1)}, where=["c + x <= 3"])
    with pytest.raises(ValueError, match=r"where: 'c \+ x <= 3' cannot be worked out"):
        rg.Optimizer(space, method="random", seed=0).ask()


def test_long_chains_of_conditions_and_many_parameters_are_read_in_time() -> None:
    chain = {f"p{i}": rg.Int(0, 1, when={f"p{i + 1}": 1}) for i in range(3000)} | {"p3000": rg.Int(0, 1)}
    began = time.process_time()
    assert Space(chain).conditional == tuple(f"p{i}" for i in range(2999, -1, -1))
    assert Space({f"p{i}": rg.Float(0, 1) for i in range(20_000)}).coordinates[2] == "p2"
    assert time.process_time() - began < 10.0
    with pytest.raises(ValueError, match=r"parameters \['a', 'b'\] depend on each other in a cycle"):
        Space({"a": rg.Int(0, 1, when={"b": 1}), "b": rg.Int(0, 1, when={"a": 1}), "c": rg.Int(0, 1, when={"a": 1})})


def test_priors_are_checked_and_shown() -> None:
    given = Choice(["u", "v", None], prior=[3, 0, 1])
    assert given.prior == (3.0, 0.0, 1.0)
    assert repr(given) == "Choice(['u', 'v', None], prior=(3.0, 0.0, 1.0))"
    assert repr(Choice(["u", "v"])) == "Choice(['u', 'v'])"
    for bad in ([1, 2], [1, -1, 3], [0, 0, 0], [1, math.nan, 1]):
        with pytest.raises(ValueError, match="a weight of at least 0 for each label"):
            Choice(["u", "v", None], prior=bad)


def test_a_step_must_fit_into_its_range() -> None:
    assert Float(2, 3.5, step=1.5).step == 1.5
    with pytest.raises(ValueError, match="step must be at most high - low"):
        Float(2, 3.5, step=1.75)
