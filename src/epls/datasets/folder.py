"""A folder of image files as a sequence. Each image is read on access."""

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

from ..utils.threads import allowed_threads
from ._bands import BadImageError
from ._decode import decode_image, require_pillow
from ._files import Labels, checked_folder

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)
_N_NAMED = 5  # the number of bad files that an error names
Channels: TypeAlias = Literal["gray", "color", "all"]
Expected: TypeAlias = Literal["gray", "color"] | int
_NUMBERS = {"gray": 1, "color": 3}
_MIXED = re.compile(r"(gray|color), (but|among \d+) (gray|color) (is needed|images)")


_TOO_SMALL = re.compile(r"\d+ x \d+ pixels, but at least \d+ x \d+ are needed")


class MixedImagesError(ValueError):
    """A folder with both gray and color images, which ``channels`` can convert."""


def has_skipped_kind(folder: ImageFolder) -> bool:
    """Return whether images were skipped because they are gray among color images, or color among gray ones."""
    return any(_MIXED.fullmatch(reason) for _, reason in folder.skipped)


class ImageFolder(Sequence[NDArray[Any]]):
    """The images of a folder and its subfolders, sorted by name.

    Every file is decoded once at the start, so bad files are found then, not after an hour. Images are not kept in
    memory, so even a huge folder needs little memory. Hidden files and folders are skipped, and a folder that is linked
    from several places is visited once. An image may have up to 67 million pixels (2**26) and 65,535 pixels per side; a
    larger one counts as bad. All threads together decode at most 2**26 pixels at a time. The limit is half as many
    pixels for WebP files, a quarter for compressed BMP files, and twice as many for JPEG files that ``longest_side``
    shrinks.

    Photographs are read as bytes, gray or color. TIFF files whose bands are neither gray nor color, such as the 50
    bands of a multispectral image, keep all bands with the stored values. The same holds for .npy files of shape
    (height, width, channels), which are read if the folder has no other images. Such an image may have up to 134
    million values (2**27), pixels times channels.

    Parameters
    ----------
    path : path-like
        The folder.
    channels : {"gray", "color", "all"} or None, default=None
        How to convert the images. By default, they are not converted. Then they must all be gray, all color, or all
        have the same number of channels and type of values. "all" is for TIFF files: it reads all bands as stored,
        including those that would otherwise count as transparency, such as near infrared after red, green and blue, and
        does not round 16 bits to 8. Pages of one band each become the bands of one image.
    expected : {"gray", "color"}, int or None, default=None
        The kind of images, or their number of channels, that is required when images are not converted. By default, the
        most common kind in the folder.
    smallest_side : int, default=1
        The minimum height and width of an image, such as the size of the patches.
    longest_side : int or None, default=None
        Larger images are shrunk so that their longer side has this many pixels. A photograph of 12 megapixels has 1,600
        times as many patches as an image of 96 x 96, and each patch shows little.
    skip_bad : bool, default=False
        Whether to skip bad files instead of raising an error. Bad files cannot be read, are too small, or are of the
        less common kind. If there are as many gray as color images, the gray ones are skipped. The same holds for other
        channels and types of values.
    progress : callable or None, default=None
        Called with "look through", the number of files decoded so far and the total number of files.

    Attributes
    ----------
    paths : list of Path
        The files.
    names : list of str
        The names of the files relative to the folder, with "/" as separator.
    shapes : list of tuple
        (height, width) or (height, width, channels) of each image.
    labels : int64 of shape (n_images,), or None
        The class of each image: the subfolder of ``path`` that contains it, directly or further down. None if an image
        is not in a subfolder.
    class_names : tuple of str, or None
        The names of these subfolders.
    skipped : list of (Path, str)
        The skipped files, and why each was skipped.

    Examples
    --------
    With photographs in ``holiday`` and its subfolders::

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
            raise ValueError(f"{root} and its sub-folders hold no image files ({endings} or .npy): check the path")
        findings = _inspect(files, channels, expected, smallest_side, longest_side, progress)
        bad = [(file, found) for file, found in zip(files, findings, strict=True) if isinstance(found, str)]
        good = [(file, found) for file, found in zip(files, findings, strict=True) if not isinstance(found, str)]
        if bad and not (skip_bad and good):
            mixed = all(_MIXED.fullmatch(reason) for _, reason in bad)
            raise (MixedImagesError if mixed else ValueError)(_complaint(root, bad, len(files)))
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
        """Read an image from its file, or return the images of a slice as a folder with the same classes."""
        if isinstance(key, slice):
            part = copy.copy(self)
            part.paths, part.names, part.shapes = self.paths[key], self.names[key], self.shapes[key]
            part.labels = None if self.labels is None else self.labels[key]
            return part
        number = operator.index(key)  # accepts NumPy integers too
        path, expected = self.paths[number], self.shapes[number]
        try:
            image = decode_image(path, self._channels, self._longest_side)
        except BadImageError as error:
            raise OSError(
                f"{path} cannot be read any more, although it could when the folder was opened ({error}): restore it, "
                f"or open the folder again"
            ) from error
        if image.shape != expected:
            raise OSError(
                f"{path} had shape {expected} when the folder was opened and has {image.shape} now: restore it, or "
                f"open the folder again"
            )
        if image.dtype != self._type:
            raise OSError(
                f"{path} had values of type {self._type} when the folder was opened and has {image.dtype} now: restore "
                f"it, or open the folder again"
            )
        return image

    def __repr__(self) -> str:
        classes = "" if self.class_names is None else f" in {len(self.class_names)} classes"
        return f"<ImageFolder of {len(self)} images{classes}, {len(self.skipped)} files skipped>"


def _image_files(root: Path) -> list[Path]:
    """Return the image files or, if there are none, the arrays. Beside images, arrays may be something else."""
    files = list(_files(root))
    return [file for file in files if file.suffix.lower() in SUFFIXES] or files


def _files(root: Path) -> Iterator[Path]:
    visited = set()
    for place, folders, files in os.walk(root, onerror=_cannot_list, followlinks=True):
        real = os.path.realpath(place)
        # Links may form cycles.
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            yield from (Path(place, name) for name in files if _is_image(name))
        visited.add(real)


def _is_image(name: str) -> bool:
    return not name.startswith(".") and Path(name).suffix.lower() in (*SUFFIXES, ".npy")


def _cannot_list(error: OSError) -> None:
    raise OSError(f"the folder {error.filename} cannot be read ({error.strerror}): check its permissions") from error


class _Found(NamedTuple):
    """The properties of an image."""

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
    """Return the properties of each image, or the reason why it cannot be used."""

    def inspect(file: Path) -> _Found | str:
        try:
            image = decode_image(file, channels, longest_side)
        except BadImageError as error:
            return str(error)
        if min(image.shape[:2]) < smallest_side:
            size = f"{image.shape[0]} x {image.shape[1]} pixels"
            return f"{size}, but at least {smallest_side} x {smallest_side} are needed"
        return _Found(image.shape, image.dtype)

    findings: list[_Found | str] = []
    with ThreadPoolExecutor(max_workers=allowed_threads()) as pool:  # Pillow decodes without the GIL
        for found in pool.map(inspect, files):
            findings.append(found)
            if progress is not None:
                progress("look through", len(findings), len(files))
    return _of_one_kind(findings, expected)


def _of_one_kind(findings: list[_Found | str], expected: Expected | None) -> list[_Found | str]:
    """Return the findings, with a reason for each image that is not of the expected or most common kind."""
    good = [found for found in findings if not isinstance(found, str)]
    counts = Counter((found.n_channels, found.dtype) for found in good)
    needed = _NUMBERS[expected] if isinstance(expected, str) else expected
    # In case of ties, the kind with more channels.
    kinds = [kind for kind in counts if needed in (None, kind[0])]
    wanted = max(kinds, key=lambda kind: (counts[kind], kind[0], kind[1].str), default=None)

    def checked(found: _Found | str) -> _Found | str:
        if isinstance(found, str) or (found.n_channels, found.dtype) == wanted:
            return found
        name = _kind_name(found.n_channels, found.dtype)
        if needed is not None and found.n_channels != needed:
            return f"{name}, but {_kind_name(needed)} is needed"
        assert wanted is not None  # this image has a possible kind
        return f"{name}, among {counts[wanted]} {_kind_name(*wanted)} images"

    return [checked(found) for found in findings]


def _kind_name(n_channels: int, dtype: np.dtype[Any] | None = None) -> str:
    """Describe a kind of images: gray, color or 50-channel, with the type unless it is that of photographs."""
    name = {1: "gray", 3: "color"}.get(n_channels, f"{n_channels}-channel")
    return name if dtype in (None, np.uint8) else f"{name} {dtype}"


def _complaint(root: Path, bad: list[tuple[Path, str]], n_files: int) -> str:
    named = "; ".join(f"{file.relative_to(root).as_posix()}: {reason}" for file, reason in bad[:_N_NAMED])
    more = f"; and {len(bad) - _N_NAMED} more" if len(bad) > _N_NAMED else ""
    if len(bad) < n_files:
        advice = "repair or remove them, or skip them with skip_bad=True (on the command line, --skip-bad)"
    elif all(_TOO_SMALL.fullmatch(reason) for _, reason in bad):
        advice = (
            "no images are left; use larger images, smaller patches or fewer regions (on the command line, a smaller "
            "--patch-size or --grid)"
        )
    else:
        advice = "no images are left; check the path of the folder"
    if any(_MIXED.fullmatch(reason) for _, reason in bad):
        advice += '; channels="color" or channels="gray" converts all images'
    return f"{len(bad)} of {n_files} image files in {root} cannot be used ({named}{more}): {advice}"


def _classes(names: list[str]) -> tuple[Labels | None, tuple[str, ...] | None]:
    if not all("/" in name for name in names):
        return None, None
    class_names, labels = np.unique([name.split("/")[0] for name in names], return_inverse=True)
    return labels.astype(np.int64), tuple(map(str, class_names))
