"""A folder of image files as a sequence that reads each image when it is asked for."""

from __future__ import annotations

import copy
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ..utils.threads import blas_threads
from ._bands import BadImageError
from ._decode import decode_image, require_pillow
from ._files import Labels, checked_folder

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)
_N_NAMED = 5  # bad files named in an error
Channels: TypeAlias = Literal["gray", "color", "all"]
Expected: TypeAlias = Literal["gray", "color"] | int
_NUMBERS = {"gray": 1, "color": 3}
_MIXED = re.compile(r"(gray|color), (where|among \d+) (gray|color) (is needed|images)")


class ImageFolder(Sequence[NDArray[Any]]):
    """The images of a folder and of those below it, in the order of their names.

    Every file is decoded once at the start, so that a bad one is found then and not after an hour; images are not
    kept, so that a folder of any size takes little memory. Hidden files and folders are passed over, and a folder
    that is linked to from several places is visited once. An image may have 67 million pixels (2**26), of which no more
    are decoded at the same time by all threads together, and 65,535 a side; a larger one counts as bad. WebP files may
    have half as many pixels, compressed BMP files a quarter, and JPEG files that ``longest_side`` shrinks twice as
    many.

    Photographs are read as bytes, gray or color. TIFF files with bands that are neither gray nor color, such as the 50
    of a multispectral image, keep all of them, with the values that are stored; so do .npy files of shape (height,
    width, channels), which are read if the folder has no other images. Such an image may have 134 million values
    (2**27), pixels times channels.

    Parameters
    ----------
    path : path-like
        The folder.
    channels : {"gray", "color", "all"} or None, default=None
        What to convert all images to. By default they stay as they are, and must be all gray, all color, or all of the
        same number of channels and type of values. "all" is for TIFF files: all of their bands are read as they are
        stored, also those that would be taken for transparency, such as near infrared after red, green and blue; and
        16 bits are not rounded to 8. Pages of one band each are bands of one image.
    expected : {"gray", "color"}, int or None, default=None
        Of which kind images must be, or how many channels they must have, where they are not converted. By default the
        kind of most of them.
    smallest_side : int, default=1
        The least height and width that an image must have, such as the size of the patches.
    longest_side : int or None, default=None
        What height or width, whichever is more, is shrunk to in images that are larger. A photograph of 12 megapixels
        has 1,600 times the patches of an image of 96 x 96, and a patch of it shows little.
    skip_bad : bool, default=False
        Leave bad files out instead of raising an error: those that cannot be read, that are too small and, of gray
        and color images, the fewer ones (of as many, the gray); likewise for other channels and types of values.
    progress : callable or None, default=None
        Is told "look through", the files that were decoded and the files in all.

    Attributes
    ----------
    paths : list of Path
        The files.
    names : list of str
        Their names relative to the folder, with "/" between the parts.
    shapes : list of tuple
        (height, width) or (height, width, channels) of each image.
    labels : int64 of shape (n_images,), or None
        The class of each image, which is the sub-folder of ``path`` that it is in or below; None if some image is in
        no sub-folder.
    class_names : tuple of str, or None
        The names of these sub-folders.
    skipped : list of (Path, str)
        The files left out, and why.

    Examples
    --------
    With photographs in ``holiday`` and folders in it::

        folder = ImageFolder("holiday", smallest_side=10)
        folder[0]  # (480, 640, 3), read from its file
        sample_patches(folder, 10_000, patch_size=10)
    """

    paths: list[Path]
    names: list[str]
    shapes: list[tuple[int, ...]]
    labels: Labels | None
    class_names: tuple[str, ...] | None
    skipped: list[tuple[Path, str]]

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        channels: Channels | None = None,
        expected: Expected | None = None,
        smallest_side: int = 1,
        longest_side: int | None = None,
        skip_bad: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        if channels not in (None, "gray", "color", "all"):
            raise ValueError(f'channels={channels!r}: give "gray", "color", "all" or None')
        if expected not in (None, "gray", "color") and not (type(expected) is int and expected > 0):
            raise ValueError(f'expected={expected!r}: give "gray", "color", a number of channels or None')
        if smallest_side < 1:
            raise ValueError(f"smallest_side={smallest_side}: give 1 or more pixels")
        if longest_side is not None and longest_side < smallest_side:
            raise ValueError(f"longest_side={longest_side} must be at least smallest_side={smallest_side}, or None")
        require_pillow()
        root = checked_folder(path)
        self._channels = channels
        self._longest_side = longest_side
        files = sorted(_image_files(root), key=lambda file: file.relative_to(root).as_posix())
        if not files:
            endings = ", ".join(sorted(SUFFIXES))
            raise ValueError(f"{root} and the folders in it hold no image files ({endings} or .npy)")
        findings = _inspect(files, channels, expected, smallest_side, longest_side, progress)
        bad = [(file, found) for file, found in zip(files, findings, strict=True) if isinstance(found, str)]
        good = [(file, found) for file, found in zip(files, findings, strict=True) if not isinstance(found, str)]
        if bad and not (skip_bad and good):
            raise ValueError(_complaint(root, bad, len(files)))
        self.skipped = bad
        self.paths = [file for file, _ in good]
        self.shapes = [found.shape for _, found in good]
        self._type = good[0][1].dtype
        self.names = [file.relative_to(root).as_posix() for file in self.paths]
        self.labels, self.class_names = _classes(self.names)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, key: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> ImageFolder: ...

    def __getitem__(self, key: int | slice) -> NDArray[Any] | ImageFolder:
        """The image of a number, read from its file; or those of a slice, as a folder of the same classes."""
        if isinstance(key, slice):
            part = copy.copy(self)
            part.paths, part.names, part.shapes = self.paths[key], self.names[key], self.shapes[key]
            part.labels = None if self.labels is None else self.labels[key]
            return part
        number = operator.index(key)  # numpy's integers too
        path, expected = self.paths[number], self.shapes[number]
        try:
            image = decode_image(path, self._channels, self._longest_side)
        except BadImageError as error:
            raise OSError(
                f"{path} could be read when the folder was opened, but no longer ({error}): put it back, or open the "
                f"folder again"
            ) from error
        if image.shape != expected:
            raise OSError(
                f"{path} had shape {expected} when the folder was opened and has {image.shape} now: put it back, or "
                f"open the folder again"
            )
        if image.dtype != self._type:
            raise OSError(
                f"{path} had values of type {self._type} when the folder was opened and has {image.dtype} now: put it "
                f"back, or open the folder again"
            )
        return image

    def __repr__(self) -> str:
        classes = "" if self.class_names is None else f" in {len(self.class_names)} classes"
        return f"<ImageFolder of {len(self)} images{classes}, {len(self.skipped)} files skipped>"


def _image_files(root: Path) -> list[Path]:
    """Image files; only where there are none, arrays, which may be something else that is kept beside images."""
    files = list(_files(root))
    return [file for file in files if file.suffix.lower() in SUFFIXES] or files


def _files(root: Path) -> Iterator[Path]:
    visited = set()
    for place, folders, files in os.walk(root, onerror=_cannot_list, followlinks=True):
        real = os.path.realpath(place)
        # Links may lead round in circles.
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            yield from (Path(place, name) for name in files if _is_image(name))
        visited.add(real)


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in (*SUFFIXES, ".npy")


def _cannot_list(error: OSError) -> None:
    raise OSError(f"the folder {error.filename} cannot be read ({error.strerror}): check who may read it") from error


class _Found(NamedTuple):
    """What an image is."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def n_channels(self) -> int:
        return 1 if len(self.shape) == 2 else self.shape[2]


def _inspect(
    files: list[Path],
    channels: str | None,
    expected: Expected | None,
    smallest_side: int,
    longest_side: int | None,
    progress: Callable[[str, int, int], None] | None,
) -> list[_Found | str]:
    """What each image is, or the reason why it cannot be used."""

    def inspect(file: Path) -> _Found | str:
        try:
            image = decode_image(file, channels, longest_side)
        except BadImageError as error:
            return str(error)
        if min(image.shape[:2]) < smallest_side:
            return f"{image.shape[0]} x {image.shape[1]} pixels, where {smallest_side} x {smallest_side} is the least"
        return _Found(image.shape, image.dtype)

    findings: list[_Found | str] = []
    with ThreadPoolExecutor(max_workers=blas_threads()) as pool:  # Pillow decodes without the GIL
        for found in pool.map(inspect, files):
            findings.append(found)
            if progress is not None:
                progress("look through", len(findings), len(files))
    return _of_one_kind(findings, expected)


def _of_one_kind(findings: list[_Found | str], expected: Expected | None) -> list[_Found | str]:
    """The findings, with a reason instead of those that are not of the kind that is expected or that most are of."""
    good = [found for found in findings if not isinstance(found, str)]
    counts = Counter((found.n_channels, found.dtype) for found in good)
    needed = _NUMBERS[expected] if isinstance(expected, str) else expected
    # Of as many, those with more channels.
    kinds = [kind for kind in counts if needed in (None, kind[0])]
    wanted = max(kinds, key=lambda kind: (counts[kind], kind[0], kind[1].str), default=None)

    def checked(found: _Found | str) -> _Found | str:
        if isinstance(found, str) or (found.n_channels, found.dtype) == wanted:
            return found
        name = _kind_name(found.n_channels, found.dtype)
        if needed is not None and found.n_channels != needed:
            return f"{name}, where {_kind_name(needed)} is needed"
        assert wanted is not None  # this one is of a kind that could be
        return f"{name}, among {counts[wanted]} {_kind_name(*wanted)} images"

    return [checked(found) for found in findings]


def _kind_name(n_channels: int, dtype: np.dtype[Any] | None = None) -> str:
    """How images are called: gray, color, 50-channel; and by their type if it is not that of photographs."""
    name = {1: "gray", 3: "color"}.get(n_channels, f"{n_channels}-channel")
    return name if dtype in (None, np.uint8) else f"{name} {dtype}"


def _complaint(root: Path, bad: list[tuple[Path, str]], n_files: int) -> str:
    named = "; ".join(f"{file.relative_to(root).as_posix()}: {reason}" for file, reason in bad[:_N_NAMED])
    more = f"; and {len(bad) - _N_NAMED} more" if len(bad) > _N_NAMED else ""
    advice = (
        "none is left; check that it is the folder that you mean"
        if len(bad) == n_files
        else "mend or remove them, or leave them out with skip_bad=True (on the command line, --skip-bad)"
    )
    if any(_MIXED.fullmatch(reason) for _, reason in bad):
        advice += '; channels="color" or channels="gray" makes all images alike'
    return f"{len(bad)} of {n_files} image files in {root} cannot be used ({named}{more}): {advice}"


def _classes(names: list[str]) -> tuple[Labels | None, tuple[str, ...] | None]:
    if not all("/" in name for name in names):
        return None, None
    class_names, labels = np.unique([name.split("/")[0] for name in names], return_inverse=True)
    return labels.astype(np.int64), tuple(map(str, class_names))
