"""Learned layers as ONNX files, which many other programs can run. Needs onnx (``pip install "epls[onnx]"``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._version import __version__
from .algorithm.activations import Activation
from .algorithm.layer import FoldedLayer, layer_of
from .datasets.bands import LONGEST_SIDE
from .images.coder import GroupCoder, PatchCoder
from .images.features import ImageTransformer
from .images.patches import patch_filters
from .images.pooling import RegionGrid, n_features_of, require_map, smallest_side
from .utils.files import write_atomically
from .utils.optional import require
from .utils.types import Array

_OPSET, _IR_VERSION = 17, 8  # of 2022; later programs support them too
_MOST_VALUES = 2**25  # that cut out patches and add up regions: 128 MiB
_OPERATORS = {
    "absolute": "Abs",
    "identity": "Identity",
    "logistic": "Sigmoid",
    "relu": "Relu",
    "softplus": "Softplus",
    "tanh": "Tanh",
}


def to_onnx(model: Any, path: str | os.PathLike[str], *, image_shape: tuple[int, int] | None = None) -> None:
    """Write the ``transform`` of a model as an ONNX file, in float32.

    The input is called "input" and the output "output". The number of samples or images is free.

    Parameters
    ----------
    model : EPLS, another learner that is one layer of units, ImageFeatures or DeepFeatures
        A fitted model. Image features need the encoder "soft_threshold", or "natural" with a layer of units.
    path : path-like
        The file to write. An existing file is replaced only when the new one is complete.
    image_shape : (height, width) or None, default=None
        The size of the images (N, channels, height, width). Required for ImageFeatures and DeepFeatures.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> model = EPLS(20, max_iter=3).fit(load_digits().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(model, f"{folder}/model.onnx")
    ...     os.listdir(folder)
    ['model.onnx']
    """
    graph = _Graph()
    if isinstance(model, ImageTransformer):
        if image_shape is None:
            raise ValueError("features of images require image_shape, the (height, width) of the images")
        shapes = _image_features(graph, model.coders(), model.grid, model.mirror, image_shape)
    elif image_shape is not None:
        raise ValueError("image_shape is for ImageFeatures and DeepFeatures: leave it out for a learner of vectors")
    else:
        layer = layer_of(model)
        graph.add("Gemm", layer.weights, layer.intercept - layer.center, transB=1)
        graph.add(_operator(layer.activation))
        shapes = ["N", layer.weights.shape[1]], ["N", len(layer.weights)]
    write_atomically(Path(path), graph.model(*shapes))


Shape = list[int | str]


class _Graph:
    """A chain of operations, each applied to the previous result."""

    def __init__(self) -> None:
        self._onnx = require("onnx", "onnx", "writing ONNX files")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.last = "input"

    def add(self, operator: str, *others: NDArray[Any] | str, given: str | None = None, **attributes: Any) -> str:
        """Apply an operator to the last result, or to ``given``, and to arrays or earlier results."""
        names = [given or self.last, *(other if isinstance(other, str) else self.constant(other) for other in others)]
        self.last = f"result{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [self.last], **attributes))
        return self.last

    def join(self, results: list[str], axis: int) -> str:
        """Concatenate earlier results along an axis."""
        return self.add("Concat", *results[1:], given=results[0], axis=axis)

    def constant(self, array: NDArray[Any]) -> str:
        """Store numbers in the file."""
        name = f"constant{len(self._constants)}"
        with np.errstate(over="ignore"):  # reported below
            array = np.asarray(array, np.int64 if np.issubdtype(array.dtype, np.integer) else np.float32, order="C")
        if not np.isfinite(array).all():
            raise ValueError("the model has numbers that are too large for the single precision of ONNX files")
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def model(self, input_shape: Shape, output_shape: Shape) -> bytes:
        """Return the file."""
        helper, number = self._onnx.helper, self._onnx.TensorProto.FLOAT
        self.add("Identity")
        self._nodes[-1].output[0] = "output"
        graph = helper.make_graph(
            self._nodes,
            "epls",
            [helper.make_tensor_value_info("input", number, input_shape)],
            [helper.make_tensor_value_info("output", number, output_shape)],
            self._constants,
        )
        model = helper.make_model(
            graph,
            producer_name="epls",
            producer_version=__version__,
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        self._onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


def _image_features(
    graph: _Graph, coders: Sequence[PatchCoder], grid: int, mirror: bool, image_shape: tuple[int, int]
) -> tuple[Shape, Shape]:
    """Map images to the features of all layers; return the shapes of both."""
    least = smallest_side([coder.geometry for coder in coders], grid)
    sides: list[Any] = list(image_shape)  # callers may pass anything
    fits = all(isinstance(side, Integral) and least <= int(side) <= LONGEST_SIDE for side in sides)
    if len(sides) != 2 or not fits:
        raise ValueError(
            f"image_shape={image_shape!r}: give a (height, width) of at least {least} and at most {LONGEST_SIDE} each"
        )
    n_features = n_features_of(sum(coder.n_codes for coder in coders), grid)
    if mirror:  # the mirror images follow the images
        graph.add("Slice", *(np.array([number]) for number in (-1, -(2**31), 3, -1)))
        graph.join(["input", graph.last], axis=0)
    height, width = map(int, sides)
    found, shape, n_values = [], (height, width), 0
    for coder in coders:
        n_values += coder.patch_values**2 + grid * sum(coder.geometry.positions(*shape))
        if n_values > _MOST_VALUES:
            raise ValueError(
                f"{n_values:,} values to cut out patches and to add up regions in an ONNX file, but at most "
                f"{_MOST_VALUES:,} are allowed: learn from smaller patches, or choose a smaller grid or image_shape"
            )
        is_last = coder is coders[-1]
        pooled, maps = _add_groups(graph, coder, grid, shape, with_maps=not is_last)
        found.append(graph.add("Flatten", given=graph.join(pooled, axis=2)))
        if not is_last:
            graph.join(maps, axis=1)
            shape = coder.geometry.map_shape(*shape)
    graph.join(found, axis=1)
    if mirror:
        graph.add("Reshape", np.array([2, -1, n_features]))
        graph.add("ReduceMean", axes=[0], keepdims=0)
    return ["N", coders[0].n_channels, height, width], ["N", n_features]


def _add_groups(
    graph: _Graph, coder: PatchCoder, grid: int, image_shape: tuple[int, int], with_maps: bool
) -> tuple[list[str], list[str]]:
    """Return for each group of channels features (N, n_regions, n_codes) and map (N, n_codes, rows, columns)."""
    images, features, maps = graph.last, [], []
    positions = coder.geometry.positions(*image_shape)
    if with_maps:
        require_map(*coder.geometry.map_shape(*image_shape), coder.n_codes)
    regions = RegionGrid(positions, grid)
    rows = graph.constant(_pooling_matrix(regions.row_cuts, coder.pooling).T)
    columns = graph.constant(_pooling_matrix(regions.column_cuts, coder.pooling))
    # One filter for each value of a patch extracts the patches exactly, with the values as channels.
    filters = graph.constant(patch_filters(np.eye(coder.patch_values, dtype=np.float32), coder.patch_shape))
    for number, group in enumerate(coder.groups):
        layer = group.folded()  # first: it says which encoders are supported
        graph.last = images
        if coder.channels is not None:
            graph.add("Gather", coder.channels[number], axis=1)
        graph.add("Conv", filters, strides=[coder.geometry.stride] * 2)
        _add_patches(graph, coder.patch_values, group.preparation.contrast_floor)
        _add_codes(graph, layer, group.split_sign)
        codes = graph.add("Reshape", np.array([0, group.n_codes, *positions]))
        graph.add("MatMul", columns)
        graph.add("MatMul", graph.last, given=rows)
        graph.add("Reshape", np.array([0, group.n_codes, grid**2]))
        if coder.pooling == "log":
            _add_log(graph, group.typical_code)
        features.append(graph.add("Transpose", perm=[0, 2, 1]))
        if with_maps:
            graph.last = codes
            maps.append(_add_cells(graph, coder, group))
    return features, maps


def _add_cells(graph: _Graph, coder: PatchCoder, group: GroupCoder) -> str:
    """Map codes (N, n_codes, rows, columns) to a smaller map."""
    operator, geometry = "MaxPool" if coder.map_pooling == "max" else "AveragePool", coder.geometry
    graph.add(operator, kernel_shape=[geometry.pool] * 2, strides=[geometry.pool_stride] * 2)
    if coder.map_pooling == "log":
        return _add_log(graph, group.typical_code)
    return graph.add("Div", np.array(group.typical_code))


def _add_patches(graph: _Graph, n_values: int, contrast_floor: float) -> None:
    """Map patches, with their values as channels, to normalised patches (N, n_values, n_positions)."""
    patches = graph.add("Reshape", np.array([0, n_values, -1]))
    graph.add("ReduceMean", axes=[1])
    centered = graph.add("Sub", graph.last, given=patches)
    graph.add("Mul", centered)
    graph.add("ReduceMean", axes=[1])
    graph.add("Add", np.array(contrast_floor))
    graph.add("Sqrt")
    graph.add("Div", graph.last, given=centered)


def _add_codes(graph: _Graph, layer: FoldedLayer, split_sign: bool) -> str:
    """Map patches to codes (N, n_codes, n_positions)."""
    net = graph.add("MatMul", graph.last, given=graph.constant(layer.weights))
    graph.add("Add", (layer.intercept - layer.center)[:, None])
    codes = graph.add(_operator(layer.activation))
    if not split_sign:
        return codes
    graph.add("Neg", given=net)
    graph.add("Add", (layer.intercept + layer.center)[:, None])
    graph.add(_operator(layer.activation))
    return graph.join([codes, graph.last], axis=1)


def _add_log(graph: _Graph, typical_code: float) -> str:
    """Compute log(1 + code / typical), with the sign of the code."""
    codes = graph.last
    graph.add("Abs")
    graph.add("Div", np.array(typical_code))
    graph.add("Add", np.array(1.0))
    size = graph.add("Log")
    graph.add("Sign", given=codes)
    return graph.add("Mul", size)


def _pooling_matrix(cuts: list[int], pooling: str) -> Array:
    """Return the weights of the positions along a side of the map in each region along it: (n_positions, grid)."""
    matrix: Array = np.repeat(np.eye(len(cuts) - 1, dtype=np.float32), np.diff(cuts), axis=0)
    return matrix if pooling == "sum" else matrix / matrix.sum(axis=0)


def _operator(activation: Activation) -> str:
    if not activation.is_built_in:
        raise ValueError(
            f"the activation {activation.name!r} is defined by NumPy functions: only {sorted(_OPERATORS)} can be "
            f"exported"
        )
    return _OPERATORS[activation.name]
