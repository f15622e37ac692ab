"""Features of images in torch: what :class:`epls.ImageFeatures` computes, on any device and differentiable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from ..algorithm.half import uses_half
from ..utils.types import Array, Indices
from .pooling import PatchPositions, RegionGrid, smallest_side
from .torch_codes import PatchCodes, batches_of_one_size, check_images, compute_in_half

if TYPE_CHECKING:
    from .collection import ImageCollection
    from .features import ImageFeatures


class DenseFeatures(PatchCodes):
    """The ``transform`` of fitted image features as a module, for images of any size.

    Parameters
    ----------
    features : ImageFeatures
        Fitted, with an encoder that is "soft_threshold", "triangle", or "natural" with a layer of units.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, ImageFeatures
    >>> images = load_digits().images[:100]
    >>> features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, n_patches=2000, random_state=0).fit(images)
    >>> DenseFeatures(features)(torch.tensor(images[:, None], dtype=torch.float32)).shape
    torch.Size([100, 80])
    """

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__(features)
        self.grid, self.mirror = features.grid, features.mirror

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The features of images.

        Parameters
        ----------
        images : Tensor of shape (N, channels, height, width)
            Images, with values on the scale of those that the features were learned from.

        Returns
        -------
        Tensor of shape (N, grid * grid * n_codes)
            The features.
        """
        regions = self.regions(images)
        views = [images, images.flip(3)] if self.mirror else [images]
        pooled = [self.pooled(self.sums_over(view, regions), regions).flatten(1) for view in views]
        return torch.stack(pooled).mean(dim=0)

    def region_sums(self, images: torch.Tensor) -> torch.Tensor:
        """The sums of codes over each region, (N, n_regions, n_codes)."""
        return self.sums_over(images, self.regions(images))

    def regions(self, images: torch.Tensor) -> RegionGrid:
        """The regions that the codes of images are pooled over."""
        check_images(images, self.n_channels, smallest_side(self.patch_size, self.stride, self.grid))
        height, width = images.shape[2:]
        return RegionGrid(PatchPositions(height, width, self.patch_size, self.stride).shape, self.grid)


def sums_and_counts(
    features: ImageFeatures, images: ImageCollection, start: int, device: torch.device
) -> Iterator[tuple[Array, Indices]]:
    """For each image, the sums of codes over its regions and the number of positions in each, found on a device."""
    module = DenseFeatures(features).to(device)
    if uses_half(features.precision, str(device)):
        compute_in_half(module)

    def n_elements(height: int, width: int) -> float:
        return height * width / module.stride**2 * module.n_elements

    for pixels in batches_of_one_size(images, start, n_elements, device):
        with torch.inference_mode():
            sums = module.region_sums(pixels)
            if features.mirror:
                sums = torch.stack([sums, module.region_sums(pixels.flip(3))], dim=1)
        counts = module.regions(pixels).counts
        yield from ((found, counts) for found in sums.numpy(force=True))
