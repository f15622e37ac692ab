"""A stack of layers in torch: what :class:`epls.DeepFeatures` computes, on any device, to be trained further."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ..algorithm.half import uses_half
from ..utils.types import Array
from .deep import layers_up_to, smallest_image
from .pooling import PatchPositions, RegionGrid
from .torch_codes import CellStrips, PatchCodes, batches_of_one_size, check_images, compute_in_half

if TYPE_CHECKING:
    from .collection import ImageCollection
    from .deep import DeepFeatures
    from .layers import Layer


class DeepNetwork(nn.Module):
    """The ``transform`` of fitted deep features as a network, for images of any size.

    Weights, centres and biases of all layers are parameters, so that a loss on the features trains them further. The
    groups of channels, the contrast floors and the typical codes stay as they were learned; the ``state_dict`` has
    them.

    Parameters
    ----------
    features : DeepFeatures
        Fitted, with encoders that are "soft_threshold", "triangle", or "natural" with a layer of units.

    Attributes
    ----------
    layers : torch.nn.ModuleList of LayerModule
        The layers, from the images upwards.
    n_features : int
        The number of features of an image.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, DeepFeatures, Layer
    >>> images = load_digits().images[:500]
    >>> first = Layer(EPLS(20, max_iter=3), patch_size=3, pool=2, n_patches=2000)
    >>> second = Layer(EPLS(10, max_iter=3), patch_size=2, n_groups=3, group_size=8, n_patches=2000)
    >>> network = DeepNetwork(DeepFeatures([first, second], random_state=0).fit(images))
    >>> pixels = torch.tensor(images[:100, None], dtype=torch.float32)
    >>> network(pixels).shape
    torch.Size([100, 200])
    >>> network.maps(pixels, layer=2).shape
    torch.Size([100, 30, 1, 1])
    """

    def __init__(self, features: DeepFeatures) -> None:
        super().__init__()
        check_is_fitted(features)
        self.layers = nn.ModuleList(LayerModule(layer) for layer in features.layers_)
        self.grid, self.mirror, self.n_channels = features.grid, features.mirror, features.n_channels_
        self.n_features = len(features.get_feature_names_out())
        self._least = smallest_image(features.layers_, features.grid)
        numbers = range(1, len(self.layers) + 1)
        self._least_for_map = [smallest_image(features.layers_[:n], 1, with_map=True) for n in numbers]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The features of images.

        Parameters
        ----------
        images : Tensor of shape (N, channels, height, width)
            Images, with values on the scale of those that the features were learned from.

        Returns
        -------
        Tensor of shape (N, n_features)
            The features of the first layer, region by region, then those of the next.
        """
        return self.views(images).mean(dim=1)

    def views(self, images: torch.Tensor) -> torch.Tensor:
        """The features (N, 1, n_features) of images; with ``mirror``, those of mirror images follow: 2 for the 1."""
        check_images(images, self.n_channels, self._least)
        views = [images, images.flip(3)] if self.mirror else [images]
        return torch.stack([self._features(view) for view in views], dim=1)

    def maps(self, images: torch.Tensor, layer: int = 1) -> torch.Tensor:
        """The maps of images: the images of the layer above.

        Parameters
        ----------
        images : as for :meth:`forward`
            Images.
        layer : int, default=1
            The number of the layer; the one that sees the images is 1.

        Returns
        -------
        Tensor of shape (N, n_codes, rows, columns)
            The pooled codes. Those of ``DeepFeatures.maps`` have the codes last.
        """
        modules = layers_up_to(layer, self.layers)
        check_images(images, self.n_channels, self._least_for_map[layer - 1])
        for module in modules:
            images = module.map(images)
        return images

    def _features(self, images: torch.Tensor) -> torch.Tensor:
        found = []
        for layer in self.layers[:-1]:
            features, images = layer(images, self.grid)
            found.append(features)
        found.append(self.layers[-1].features(images, self.grid))
        return torch.cat([features.flatten(1) for features in found], dim=1)

    def n_elements(self, height: int, width: int) -> float:
        """About as many numbers as are held at a time for an image of some size."""
        most = 0.0
        for layer in self.layers:
            of_position = max(group.n_elements for group in layer.groups)
            rows, columns = layer.positions(height, width)
            most = max(most, rows * columns * of_position)
            height, width = (max(0, (side - layer.pool) // layer.pool_stride + 1) for side in (rows, columns))
            most = max(most, height * width * layer.n_codes)
        return most


class LayerModule(nn.Module):
    """One layer of a stack: the codes of each group of channels, pooled to features and to the layer's maps.

    Parameters
    ----------
    layer : Layer
        Fitted.

    Attributes
    ----------
    groups : torch.nn.ModuleList of PatchCodes
        The codes of each group of channels.
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.patch_size, self.stride, self.n_codes = layer.patch_size, layer.stride, layer.n_codes
        self.pool, self.pool_stride, self.pooling = layer.pool, layer.cell_step, layer.pooling
        self.groups = nn.ModuleList(PatchCodes(part) for part in layer.features_)
        self.n_channels = layer.n_channels_
        for number, channels in enumerate(layer.channels_):
            self.register_buffer(f"channels{number}", torch.tensor(channels))

    def forward(self, images: torch.Tensor, grid: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The features (N, grid * grid, n_codes) of images, and their maps (N, n_codes, rows, columns)."""
        regions = self._regions(images, grid)
        features, maps = [], []
        for group, part in self._parts(images):
            cells = CellStrips(self.pool, self.pool_stride, self.pooling == "max")
            features.append(group.pooled(group.sums_over(part, regions, cells), regions))
            pooled = cells.pooled()
            maps.append(group.log_scaled(pooled) if self.pooling == "log" else pooled / group.typical_code)
        return torch.cat(features, dim=2), torch.cat(maps, dim=1)

    def features(self, images: torch.Tensor, grid: int) -> torch.Tensor:
        """The features (N, grid * grid, n_codes) of images, which may be too small for a map."""
        regions = self._regions(images, grid)
        pooled = [group.pooled(group.sums_over(part, regions), regions) for group, part in self._parts(images)]
        return torch.cat(pooled, dim=2)

    def map(self, images: torch.Tensor) -> torch.Tensor:
        """The maps (N, n_codes, rows, columns) of images."""
        maps: torch.Tensor = self(images, 1)[1]
        return maps

    def positions(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the patches of an image."""
        return PatchPositions(height, width, self.patch_size, self.stride).shape

    def _regions(self, images: torch.Tensor, grid: int) -> RegionGrid:
        return RegionGrid(self.positions(images.shape[2], images.shape[3]), grid)

    def _parts(self, images: torch.Tensor) -> Iterator[tuple[PatchCodes, torch.Tensor]]:
        """Each group and the images' channels that it sees."""
        for number, group in enumerate(self.groups):
            everything = group.n_channels == self.n_channels
            yield group, images if everything else images[:, self.get_buffer(f"channels{number}")]


def views_in_torch(
    features: DeepFeatures, images: ImageCollection, start: int, device: torch.device
) -> Iterator[Array]:
    """For each image from the ``start``-th, its features and with ``mirror`` those of its mirror image, a row each."""
    network = DeepNetwork(features).to(device)
    if uses_half(features.precision, str(device)):
        compute_in_half(network)
    for pixels in batches_of_one_size(images, start, network.n_elements, device):
        with torch.inference_mode():
            views = network.views(pixels)
        yield from views.numpy(force=True)


def maps_in_torch(features: DeepFeatures, images: ImageCollection, layer: int, device: torch.device) -> Iterator[Array]:
    """The maps (rows, columns, n_codes) of a layer of all images, one after the other."""
    network = DeepNetwork(features).to(device)
    for pixels in batches_of_one_size(images, 0, network.n_elements, device):
        with torch.inference_mode():
            maps = network.maps(pixels, layer).permute(0, 2, 3, 1).contiguous()
        yield from maps.numpy(force=True)
