"""Models as single files: arrays in safetensors, settings as JSON in its header. No pickle: untrusted files are safe.

A model is written to a temporary file in the same folder, flushed to the disk and renamed. After a crash, a full disk
or Ctrl-C, the previous file is still there.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ._version import __version__
from .algorithm.settings import TrainingSettings
from .balanced.kmeans import BalancedKMeans
from .encoders import ENCODERS
from .images.features import ImageFeatures
from .images.patches import ZCAWhitening
from .images.stack import DeepFeatures, Layer
from .learners import LEARNERS
from .utils.container import DamagedError, ForeignError, VersionError, read_container, write_container
from .utils.fields import checked_names

FORMAT_VERSION = 3
_READ_FORMATS = (2, FORMAT_VERSION)
_OUTPUTS = ("default", "pandas", "polars")  # supported by scikit-learn's set_output
# A layer of 500 groups has 1,500 models, counting those in settings, and as many arrays.
_MOST_MODELS, _DEEPEST, _MOST_ARRAYS = 2**13, 16, 2**16
_NOT_SAVED = {"device", "checkpoint"}  # of the machine, not of the model
# Parameters of EPLS that format 2 (epls 0.2.0) has in place of ``settings``.
_SETTINGS_OF_FORMAT_2 = {"target", "loss", "optimizer", "biases", "drop_last", "max_norm", "wake"}


@cache
def _classes() -> dict[str, Any]:
    """Return the classes that a file may name. No other class is ever created from a file."""
    others = [ImageFeatures, DeepFeatures, Layer, ZCAWhitening, BalancedKMeans, Pipeline, StandardScaler]
    known = [*LEARNERS.values(), *ENCODERS.values(), *others]
    return {kind.__name__: kind for kind in known}


# Transformers of scikit-learn that may precede a learner, with their fitted attributes.
_SCALER_ARRAYS = ("mean_", "scale_", "var_")


def save_model(model: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None) -> None:
    """Save a fitted learner, image features, whitening or balanced k-means to a file.

    Parameters
    ----------
    model : learner, ImageFeatures, DeepFeatures, ZCAWhitening, BalancedKMeans, or a Pipeline with StandardScaler
        A fitted model. Its settings must be plain values or models of this library. Custom activations cannot be saved,
        because they are code; pickle the model instead.
    path : path-like
        The file to write. An existing file is replaced only when the new one is complete.
    notes : dict or None, default=None
        Anything that JSON can hold, to be kept with the model, such as the source of the data or its accuracy. See
        :func:`read_notes`.
    """
    header, arrays = _fitted_description(model)
    _check_extent(header, arrays)
    write_container(Path(path), header | {"format": FORMAT_VERSION, "epls": __version__, "notes": notes or {}}, arrays)


def _fitted_description(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the name, settings, plain attributes and arrays of a fitted model; nested models use dotted names."""
    header = _description(model)
    state, attributes = _state(model)
    header["attributes"] = attributes
    output = getattr(model, "_sklearn_output_config", {}).get("transform")  # what set_output has set
    if output is not None:
        header["output"] = output
    header["parts"] = {}
    arrays = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            header["parts"][name], of_part = _fitted_description(value)
            arrays |= {f"{name}.{key}": array for key, array in of_part.items()}
    return header, arrays


def _check_extent(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Refuse far more models, or deeper ones, than real models have: making them could take hours."""
    n_models = 0
    left: list[tuple[Any, int]] = [(header, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, dict) and "learner" in value:
            n_models, depth = n_models + 1, depth + 1
        if n_models > _MOST_MODELS or depth > _DEEPEST or len(arrays) > _MOST_ARRAYS:
            raise ValueError(
                f"a file may hold at most {_MOST_MODELS:,} models, {_DEEPEST} inside each other, and {_MOST_ARRAYS:,} "
                f"arrays"
            )
        if isinstance(value, dict | list):
            left += [(item, depth) for item in (value.values() if isinstance(value, dict) else value)]


def _description(model: Any) -> dict[str, Any]:
    """Return the name and settings of a model."""
    name = type(model).__name__
    if name not in _classes():
        raise ValueError(f"a {name} cannot be saved to a model file, only {sorted(_classes())}: pickle it")
    if isinstance(model, Pipeline):
        return {"learner": name, "params": {}, "steps": {key: _description(step) for key, step in model.steps}}
    params = {key: _plain(key, value) for key, value in model.get_params(deep=False).items() if key not in _NOT_SAVED}
    return {"learner": name, "params": params}


def _state(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays, models and plain values of a fitted model."""
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        if dotted := [name for name, _ in model.steps if "." in name]:
            raise ValueError(f"the step {dotted[0]!r} cannot be saved: give it a name without a dot")
        return dict(model.steps), {}
    if isinstance(model, StandardScaler):
        arrays = {name: getattr(model, name) for name in _SCALER_ARRAYS if getattr(model, name) is not None}
        names = getattr(model, "feature_names_in_", None)
        return arrays, {
            "n_samples_seen_": np.asarray(model.n_samples_seen_).tolist(),
            "n_features_in_": model.n_features_in_,
            "feature_names_in_": None if names is None else names.tolist(),
        }
    if not hasattr(model, "_fitted_state"):
        raise ValueError(f"a {type(model).__name__} cannot be saved to a model file: pickle it")
    return model._fitted_state()


class RemovedError(ValueError):
    """A model uses something that this version does not have."""


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a fitted model from a file that :func:`save_model` wrote.

    Raises
    ------
    ValueError
        If the file is damaged, is not a model of this library, or was written by a later version of it.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the results of :func:`load_model` and :func:`read_notes` from one reading of the file."""
    header, arrays = _read(Path(path))
    try:
        notes = _notes(path, header)
        _check_extent({name: value for name, value in header.items() if name != "notes"}, arrays)
        return _fitted_model(header, arrays), notes
    except RemovedError as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the notes that were saved with a model, without creating the model; empty if there are none."""
    return _notes(path, _read(Path(path))[0])


def _notes(path: str | os.PathLike[str], header: dict[str, Any]) -> dict[str, Any]:
    notes = header.get("notes", {})
    if not isinstance(notes, dict):
        raise ValueError(f"{path} is damaged: its notes are not a dict")
    return notes


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a model file."""
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder; a model is one file, as `epls fit` or save_model writes it: give its path"
        )
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check the path")
    try:
        header, arrays = read_container(path, *_READ_FORMATS)
    except VersionError as error:
        raise ValueError(
            f"{path} cannot be read: {error}; this is epls {__version__}, which reads formats "
            f"{' and '.join(map(str, _READ_FORMATS))}: install the version that wrote it"
        ) from error
    except ForeignError as error:
        raise ValueError(
            f"{path} is not a model: it is not a file that `epls fit` or save_model wrote; check the path"
        ) from error
    except DamagedError as error:
        raise ValueError(
            f"{path} is not a model that epls wrote, or it is damaged ({error}): get an intact copy, or learn the "
            f"model again with `epls fit`"
        ) from error
    return header, arrays


def _fitted_model(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    model = _model(header)
    state: dict[str, Any] = {}
    of_parts: dict[str, dict[str, Any]] = {part: {} for part in header["parts"]}
    for name, array in arrays.items():
        part, dot, rest = name.partition(".")
        if not dot:
            state[name] = array
        elif part in of_parts:
            of_parts[part][rest] = array
    for part, part_header in header["parts"].items():
        state[part] = _fitted_model(part_header, of_parts[part])
    _restore(model, state, header["attributes"])
    if "output" in header:  # if the user called set_output
        if header["output"] not in _OUTPUTS:  # set_output accepts anything
            raise ValueError(f"its output is {header['output']!r}, but must be one of {', '.join(_OUTPUTS)}")
        model.set_output(transform=header["output"])
    return model


def _restore(model: Any, state: dict[str, Any], plain: dict[str, Any]) -> None:
    if isinstance(model, Pipeline):
        model.steps = [(name, state[name]) for name, _ in model.steps]
        if not model.steps or not all(hasattr(step, "transform") for _, step in model.steps[:-1]):
            raise ValueError("a pipeline must have at least one step, and every step must have transform")
        if not (hasattr(model.steps[-1][1], "transform") or hasattr(model.steps[-1][1], "predict")):
            raise ValueError("the last step of a pipeline must have transform or predict")
    elif isinstance(model, StandardScaler):
        n_features = plain["n_features_in_"]
        if not all(array.shape == (n_features,) and np.isfinite(array).all() for array in state.values()):
            raise ValueError(f"the scaler's arrays must be finite and have {n_features} values each")
        for name in _SCALER_ARRAYS:
            setattr(model, name, state.get(name))
        model.n_samples_seen_, model.n_features_in_ = plain["n_samples_seen_"], n_features
        if plain["feature_names_in_"] is not None:
            model.feature_names_in_ = checked_names(plain["feature_names_in_"], n_features)
    else:
        model._restore_fitted_state(state, plain)


def _model(description: dict[str, Any]) -> Any:
    name = description["learner"]
    if not isinstance(name, str) or name not in _classes():
        raise ValueError(f"it holds a {name!r}; this version of epls knows {sorted(_classes())}")
    if name == "Pipeline":
        return Pipeline([(key, _model(step)) for key, step in description["steps"].items()])
    params = dict(description["params"])
    settings = params.pop("settings", None)
    if name == "EPLS" and (old := _SETTINGS_OF_FORMAT_2 & set(params)):
        settings = {key: params.pop(key) for key in old}
    params = {key: _value(value) for key, value in params.items()}
    if settings is not None:
        try:
            params["settings"] = TrainingSettings(**settings)
        except ValueError as error:
            raise RemovedError(f"this version of epls does not have its {error}") from error
    model = _classes()[name](**params)
    model._validate_params()  # as fit does, since the settings of an untrusted file may be wrong
    return model


def _value(value: Any) -> Any:
    """Return the value of a parameter: a model from its description, or a plain value."""
    if isinstance(value, dict):
        return _model(value)
    if isinstance(value, list):  # of models, or of numbers
        return [_model(item) if isinstance(item, dict) else item for item in value]
    return value


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, TrainingSettings):
        return {field: _plain(field, item) for field, item in asdict(value).items()}
    if type(value).__name__ in _classes():
        return _description(value)
    if isinstance(value, list | tuple) and all(type(item).__name__ in _classes() for item in value):
        return [_description(item) for item in value]
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1 and np.asarray(value).dtype.kind in "iu":
        return [int(number) for number in value]
    raise ValueError(
        f"{name}={value!r} cannot be saved to a model file, which holds only plain values and models of this "
        f"library: use one of these, or pickle the model"
    )
