"""Pushing, reviews and sensitive samples: physics facts, the score by hand, gradients against finite differences, on
real data where it is."""

import numpy as np
import pytest
from regretless_bench.problems import make_problem
from regretless_bench.problems.reviews import corpus, hierarchical_f1
from regretless_bench.problems.sensitive import (
    HIGH,
    LOW,
    Classifier,
    Sensitive,
    detection_rates,
    digits,
    enlarge,
    tamper_sd,
    train_classifier,
)


def data_or_skip(load):
    try:
        return load()
    except (FileNotFoundError, ImportError) as error:
        pytest.skip(str(error))


# ---------------------------------------------------------------- pushing


@pytest.fixture(scope="module")
def pushing():
    return data_or_skip(lambda: make_problem("pushing", seed=3))


def test_pushing_is_as_published(pushing):
    assert len(pushing.space) == 14
    assert pushing.optimum == pytest.approx(11.0727, abs=1e-4)
    values = pushing.true_unit(np.random.default_rng(0).random((150, 14)))
    assert np.median(values) == 0.0
    assert 0.25 < np.mean(values == 0.0) < 0.5  # 37 % of uniform settings touch nothing (published measurement)
    assert values.max() < pushing.optimum
    assert values.min() < -1


def test_a_hand_that_pushes_the_square_to_the_right_is_rewarded(pushing):
    far = {"x2": 5.0, "y2": -5.0, "vx2": 0.0, "vy2": 0.0, "steps2": 2.0, "angle2": 0.0, "torque1": 0.0, "torque2": 0.0}
    still = {"x1": -5.0, "y1": 5.0, "vx1": 0.0, "vy1": 0.0, "steps1": 2.0, "angle1": 0.0}
    push = {"x1": -2.0, "y1": 2.0, "vx1": 5.0, "vy1": 0.5, "steps1": 15.0, "angle1": np.pi / 2}
    assert pushing.true({**far, **still}) == 0.0
    assert pushing.true({**far, **push}) > 0.5


def test_pushing_noise_is_small_and_keyed(pushing):
    U = np.random.default_rng(1).random((1, 14))
    a, b = make_problem("pushing", seed=3), make_problem("pushing", seed=3)
    assert a.evaluate_unit(U)[0] == b.evaluate_unit(U)[0]
    assert abs(a.observe_unit(U[0]).y - a.true_unit(U)[0]) < 5


# ---------------------------------------------------------------- reviews


def test_hierarchical_f1_by_hand():
    paths = np.array([[0, 1, 2], [0, 1, 3], [0, 4, 5], [6, 7, 8]])
    np.testing.assert_allclose(hierarchical_f1(paths[0], paths), [1, 2 / 3, 1 / 3, 0])


def test_reviews_are_the_real_ones():
    features, paths = data_or_skip(corpus)
    assert features.shape == (9046, 500)
    assert len(np.unique(paths[:, 0])) == 6
    assert len(np.unique(paths[:, 2])) == 317  # whole paths, not names: a name under two parents is two nodes
    assert np.array_equal(features, np.round(features))  # counts of words
    assert features.sum() > 9046
    problem = make_problem("reviews", target=7)
    assert len(problem.features) == len(problem.scores) == 9045
    assert set(np.round(problem.scores * 3)) <= {0, 1, 2, 3}
    after = int(np.flatnonzero((paths == paths[100]).all(1))[-1])
    assert (
        problem.true({"document": after - 1}) == hierarchical_f1(paths[7], paths[after : after + 1])[0]
    )  # labels shift with the rows
    assert make_problem("reviews", seed=5).optimum == 1.0


# ---------------------------------------------------------------- sensitive samples


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    return Classifier(
        rng.standard_normal((784, 10)) * 0.05,
        rng.standard_normal(10),
        rng.standard_normal((10, 10)),
        rng.standard_normal(10),
    )


def test_sensitivity_is_the_gradient_norm(small):
    import torch

    images = np.random.default_rng(1).uniform(LOW, HIGH, (4, 784))
    expected = []
    for image in images:
        W1, b1, W2, b2 = weights = [
            torch.tensor(v, requires_grad=True) for v in (small.W1, small.b1, small.W2, small.b2)
        ]
        out = torch.log_softmax(torch.relu(torch.tensor(image) @ W1 + b1) @ W2 + b2, 0)
        squares = [sum(float((g**2).sum()) for g in torch.autograd.grad(o, weights, retain_graph=True)) for o in out]
        expected.append((np.sqrt(sum(squares)), np.sqrt(squares[int(out.argmax())])))
    whole, largest = np.array(expected).T
    np.testing.assert_allclose(small.sensitivity(images), whole, rtol=1e-10)
    np.testing.assert_allclose(small.sensitivity(images, "largest"), largest, rtol=1e-10)


def test_enlarging_is_bilinear():
    import torch

    images = np.random.default_rng(2).uniform(0, 1, (3, 49))
    theirs = torch.nn.functional.interpolate(
        torch.tensor(images).reshape(3, 1, 7, 7), size=(28, 28), mode="bilinear", align_corners=False
    )
    np.testing.assert_allclose(enlarge(images), theirs.reshape(3, -1).numpy(), atol=1e-12)


def test_problem_goes_from_pixels_to_sensitivity(small):
    problem = Sensitive(classifier=small)
    U = np.random.default_rng(3).random((4, 49))
    np.testing.assert_allclose(problem.true_unit(U), small.sensitivity(enlarge(LOW + (HIGH - LOW) * U)))
    np.testing.assert_allclose(problem.true(problem.space.decode(U[0])), problem.true_unit(U)[0])
    assert problem.direction == "maximize"


def test_detection_rates_grow_with_the_samples_and_with_the_noise(small):
    samples = enlarge(np.random.default_rng(4).uniform(LOW, HIGH, (6, 49)))
    rates = detection_rates(small, samples, 0.02, 100)
    assert rates.shape == (6,)
    assert (np.diff(rates) >= 0).all()
    assert detection_rates(small, samples, 0.0, 5).max() == 0.0
    assert detection_rates(small, samples, 0.2, 100)[-1] > rates[-1]


@pytest.mark.slow
def test_the_trained_classifier_is_as_good_as_the_paper_s():
    classifier = data_or_skip(train_classifier)
    images, labels = digits(None, True)
    assert np.mean(classifier.labels(images) == labels) > 0.92
    sd = tamper_sd(classifier, images[:2000], labels[:2000], trials=20)
    tampered = [
        np.mean(classifier.tampered(sd, np.random.default_rng(i)).labels(images[:2000]) == labels[:2000])
        for i in range(20)
    ]
    assert np.mean(tampered) == pytest.approx(0.8773, abs=0.02)
