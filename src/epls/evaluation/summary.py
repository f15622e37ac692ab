"""What to know about a fitted model: the figures measured when it is learned, and the facts that it holds."""

from __future__ import annotations

from typing import Any

from ..datasets.opening import Opened, Vectors
from ..encoders.natural import NaturalEncoder
from ..images.models import image_features, learner_of
from ..metrics import summary

_SAMPLES = 10_000


def model_summary(model: Any, data: Opened) -> dict[str, Any]:
    """Figures about a model on the data that it was learned from: to be kept in its file, and told.

    Parameters
    ----------
    model : fitted ImageFeatures, learner, or Pipeline that ends in a learner
        The model.
    data : Vectors or images
        The data, of which some are encoded.

    Returns
    -------
    dict
        The kind of data, numbers of samples, units and epochs, and what :func:`epls.metrics.summary` measures.
    """
    learner = learner_of(model)
    if isinstance(data, Vectors):
        codes = model.transform(data.some(_SAMPLES))
        about_data: dict[str, Any] = {"kind": "vectors", "feature_names": data.names}
    else:
        codes = NaturalEncoder(learner).transform(model.draw_patches(data, _SAMPLES, random_state=0))
        about_data = {"kind": "images", "skipped": len(getattr(data, "skipped", ()))}
    return {
        **about_data,
        "samples": len(data),
        "units": len(learner.components_),
        "epochs": getattr(learner, "n_iter_", None),
        **{name: round(value, 4) for name, value in summary(codes, learner.components_).items()},
    }


def model_facts(model: Any, notes: dict[str, Any]) -> dict[str, Any]:
    """What is in a model: its classes, sizes, settings, and the notes of the file that it was read from.

    Parameters
    ----------
    model : fitted model
        The model.
    notes : dict
        What :func:`epls.read_notes` returns.
    """
    learner = learner_of(model)
    facts: dict[str, Any] = {"kind": _kind(model), "learner": type(learner).__name__}
    components = getattr(learner, "components_", None)
    if components is not None:
        facts["units"], facts["values a unit sees"] = components.shape
    features = image_features(model)
    if features is not None:
        facts["patches"] = f"{features.patch_size} x {features.patch_size} pixels, {features.n_channels_} channel(s)"
        facts["features of an image"] = features._n_features_out
        facts["settings"] = {key: value for key, value in features.get_params(deep=False).items() if key != "estimator"}
    facts["settings of the learner"] = learner.get_params(deep=False)
    curve = getattr(learner, "loss_curve_", None)
    if curve:
        facts["epochs"], facts["error, first and last"] = len(curve), [float(curve[0]), float(curve[-1])]
    if notes.get("feature_names"):
        facts["columns"] = notes["feature_names"]
    told = {"kind", "units", "epochs", "feature_names"}
    measured = {key: value for key, value in notes.items() if key not in told and value not in (None, [])}
    return facts | {"measured when it was learned": measured or "nothing: the file was not written by epls fit"}


def _kind(model: Any) -> str:
    steps = getattr(model, "steps", None)
    return type(model).__name__ if steps is None else "Pipeline of " + ", ".join(type(s).__name__ for _, s in steps)
