"""Two robot hands push two objects to their goals: the 14-parameter control task of Wang et al. (EBO, AISTATS 2018), in
Box2D.

Each hand has a place, a velocity, a number of control steps and an angle; both have a torque. The reward is how much
nearer to their goals the objects end than they began, at most 11.0727 (both goals reached). Velocities get a small
normal error per evaluation, so the reward is noisy; the noiseless value is that without it. The library Box2D is
needed.

The physics: no gravity, steps of 0.01 s, 10 velocity and 10 position iterations, friction joints to the ground on hands
and objects.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regretless.space import Space
from regretless.space.parameters import Array, Float
from regretless_bench.peers.shared import library
from regretless_bench.problems.problem import Observation, Problem

STEP, ITERATIONS, AFTER = 0.01, 10, 100
"""Seconds per step, solver iterations, and steps the world goes on after the longer control."""
GAIN = 30.0
"""Control: force = GAIN * mass * (wanted - actual velocity), torque alike."""
VELOCITY_SD = 0.01
PLACES = ((0.0, 2.0), (0.0, -2.0))
GOALS = ((4.0, 3.5), (-4.0, 3.5))
HAND = (1.0, 0.3)
"""Half sides of a hand."""
OBJECT_DENSITY, OBJECT_FRICTION, OBJECT_FORCE = 0.05, 0.01, 5.0
HAND_DENSITY, HAND_FRICTION, HAND_FORCE = 0.1, 0.1, 2.0
TORQUE = 2.0
"""Largest torque of every friction joint."""


def _space() -> Space:
    ranges: dict[str, Any] = {}
    for hand in (1, 2):
        ranges |= {
            f"x{hand}": Float(-5, 5),
            f"y{hand}": Float(-5, 5),
            f"vx{hand}": Float(-10, 10),
            f"vy{hand}": Float(-10, 10),
            f"steps{hand}": Float(2, 30),
            f"angle{hand}": Float(0, 2 * math.pi),
        }
    return Space({**ranges, "torque1": Float(-5, 5), "torque2": Float(-5, 5)})


class Pushing(Problem):
    """Two hands, two objects, fourteen parameters: maximise how much nearer to their goals the objects end."""

    def __init__(self, *, seed: int = 0) -> None:
        self._box2d = library("Box2D")
        optimum = sum(math.dist(place, goal) for place, goal in zip(PLACES, GOALS))
        super().__init__("pushing", _space(), direction="maximize", optimum=optimum, seed=seed)

    def _true(self, params: dict[str, Any]) -> float:
        return self._reward(params, np.zeros(4))

    def _observe(self, params: dict[str, Any], rng: np.random.Generator) -> Observation:
        return Observation(self._reward(params, VELOCITY_SD * rng.standard_normal(4)), self._true(params))

    def _reward(self, p: dict[str, Any], errors: Array) -> float:
        b2 = self._box2d
        world = b2.b2World(gravity=(0, 0), doSleep=True)
        ground = world.CreateStaticBody()
        square = b2.b2PolygonShape(box=(0.5, 0.5))
        disc = b2.b2CircleShape(radius=1.0)
        objects = [
            _body(world, ground, place, 0.0, shape, OBJECT_DENSITY, OBJECT_FRICTION, OBJECT_FORCE)
            for place, shape in zip(PLACES, (square, disc))
        ]
        blade = b2.b2PolygonShape(box=HAND)
        hands = [
            _body(
                world, ground, (p[f"x{i}"], p[f"y{i}"]), p[f"angle{i}"], blade, HAND_DENSITY, HAND_FRICTION, HAND_FORCE
            )
            for i in (1, 2)
        ]
        steps = [int(10 * p[f"steps{i}"]) for i in (1, 2)]
        wanted = [(p[f"vx{i}"] + errors[2 * i - 2], p[f"vy{i}"] + errors[2 * i - 1]) for i in (1, 2)]
        torques = [p["torque1"], p["torque2"]]
        for t in range(max(steps) + AFTER):
            for hand, until, (vx, vy), spin in zip(hands, steps, wanted, torques):
                if t < until:
                    push, velocity = GAIN * hand.mass, hand.linearVelocity
                    hand.ApplyTorque(push * (spin - hand.angularVelocity), wake=True)
                    hand.ApplyForce((push * (vx - velocity[0]), push * (vy - velocity[1])), hand.worldCenter, wake=True)
            world.Step(STEP, ITERATIONS, ITERATIONS)
            world.ClearForces()
        ended = sum(math.dist((o.position[0], o.position[1]), goal) for o, goal in zip(objects, GOALS))
        return float((self.optimum or 0.0) - ended)


def pushing(*, seed: int = 0) -> Pushing:
    """Robot pushing: 14 control parameters of two hands, maximised, noisy (Box2D)."""
    return Pushing(seed=seed)


def _body(
    world: Any,
    ground: Any,
    place: tuple[float, float],
    angle: float,
    shape: Any,
    density: float,
    friction: float,
    force: float,
) -> Any:
    body = world.CreateDynamicBody(position=place, angle=angle)
    body.CreateFixture(shape=shape, density=density, friction=friction)
    world.CreateFrictionJoint(bodyA=ground, bodyB=body, maxForce=force, maxTorque=TORQUE)
    return body
