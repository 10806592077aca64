"""What a file of `Optimizer.save` must agree with when it is loaded: its space and its recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regretless.auto import as_recipe, find_recipe
from regretless.method import Method, Recipe
from regretless.space import Space


def same_space(description: Mapping[str, Any], given: Space | None) -> Space:
    """The space of a file, from its description or, where no file could hold that, as given; a given one must be the
    same.

    Points are kept as places in the cube, so with other bounds or labels every one of them would become another
    setting.
    """
    if given is None:
        return Space.from_json(description)
    stored, own = description["parameters"], given.describe()["parameters"]
    if list(stored) != list(own):
        raise ValueError(f"the file was written for parameters {list(stored)}, the space given has {list(own)}")
    if description.get("where", []) != given.describe().get("where", []):
        raise ValueError(
            f"the file was written for where = {description.get('where', [])}, the space given has "
            f"{given.describe().get('where', [])}"
        )
    for name, table in stored.items():
        if _text(table) != _text(own[name]):
            raise ValueError(
                f"the file was written for {name} = {_text(table)}, the space given has {name} = {_text(own[name])}"
            )
    return given


def same_recipe(stored: Mapping[str, Any], given: Recipe | type[Method] | None) -> Recipe:
    """The recipe of a file; options that no file can hold must be given again and agree by content."""
    name, options = stored["name"], stored["options"]
    if given is None:
        if any(isinstance(value, dict) for value in options.values()):
            lost = ", ".join(key for key, value in options.items() if isinstance(value, dict))
            raise ValueError(f"the file could not hold the option {lost} of {name}: pass method=")
        return find_recipe(name)(**options)
    recipe = as_recipe(given)
    if recipe.name != name:
        raise ValueError(f"the file was written by method {name!r}, not {recipe.name!r}")
    own = recipe.to_json()["options"]
    for key in sorted({*options, *own}):
        if _text(options.get(key)) != _text(own.get(key)):
            raise ValueError(
                f"the file was written by method {name!r} with {key} = {_text(options.get(key))}, "
                f"the method given has {key} = {_text(own.get(key))}"
            )
    return recipe


def _text(value: Any) -> str:
    """Plain values as text that tells 1, 1.0 and True apart and has a NaN equal itself."""
    return json.dumps(value, sort_keys=True)


def is_plain(params: Mapping[str, Any]) -> bool:
    return all(value is None or type(value) in (str, int, float, bool) for value in params.values())
