"""A folder of image files as a sequence. Images are decoded once and kept, as far as memory allows."""

from __future__ import annotations

import copy
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from ..utils.files import existing_folder
from ..utils.threads import allowed_threads
from .bands import BadImageError
from .decoding import decode_image, require_pillow
from .official import Labels

SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)
#: Bytes of decoded images that a folder keeps: as much as decoding the largest image takes, which must be free anyway.
#: That is 38,000 color images of 96 x 96 pixels, or more than 5,000 photographs shrunk to 256 pixels.
LARGEST_STORE = 2**30
_N_NAMED = 5  # the number of bad files that an error names
Channels: TypeAlias = Literal["gray", "color", "all", "auto"]
Expected: TypeAlias = Literal["gray", "color"] | int
_NUMBERS = {"gray": 1, "color": 3}


@dataclass(frozen=True)
class _Refusal:
    """Why an image file is not used, and whether a smaller limit or a conversion would help."""

    text: str
    too_small: bool = False
    convertible: bool = False  # it is gray and the others are in color, or the other way round


class _Store:
    """Decoded images that are kept, read-only, until they fill the given number of bytes. Threads may share it.

    Nothing is dropped to make room: readers go through a folder in order, again and again, and would always ask for
    what was dropped last.
    """

    def __init__(self, n_bytes: int) -> None:
        self._images: dict[Path, NDArray[Any]] = {}
        self._left = n_bytes
        self._lock = threading.Lock()

    def get(self, path: Path) -> NDArray[Any] | None:
        return self._images.get(path)

    def put(self, path: Path, image: NDArray[Any]) -> NDArray[Any]:
        """Make an image read-only, keep it if there is room, and return it."""
        image.flags.writeable = False
        with self._lock:
            if path not in self._images and image.nbytes <= self._left:
                self._images[path] = image
                self._left -= image.nbytes
        return image

    def drop(self, path: Path) -> None:
        with self._lock:
            if (image := self._images.pop(path, None)) is not None:
                self._left += image.nbytes

    def __reduce__(self) -> tuple[type[_Store], tuple[int]]:
        """Other processes decode for themselves: the images may be larger than the files."""
        return _Store, (LARGEST_STORE,)


class ImageFolder(Sequence[NDArray[Any]]):
    """The images of a folder and its subfolders, sorted by name.

    Every file is decoded at the start, so bad files are found then, not after an hour. Up to a gigabyte of decoded
    images stays in memory; the others are decoded again when they are read. Images are read-only arrays. Hidden files
    and folders are skipped, and a folder that is linked from several places is visited once. Links to places outside of
    the folder are not followed: whoever packed a folder could otherwise have it show your files.

    Photographs are read as bytes, gray or color. TIFF files whose bands are neither, such as the 50 bands of a
    multispectral image, and .npy files of shape (height, width, channels), which are read if the folder has no other
    images, keep all bands with the stored values.

    A photograph may have up to 67 million pixels (2**26; half as many in WebP, a quarter in compressed BMP, twice as
    many in JPEG files that ``longest_side`` shrinks), other images 134 million values (2**27), and a side 65,535
    pixels. A larger image counts as bad.

    Parameters
    ----------
    path : path-like
        The folder.
    channels : {"gray", "color", "all", "auto"} or None, default=None
        How to convert the images. By default, they are not converted. Then they must all be gray, all color, or all
        have the same number of channels and type of values. "auto" converts all photographs to color if some are gray
        and some are color. "all" is for TIFF files: it reads all bands as stored, including those that would otherwise
        count as transparency, such as near infrared after red, green and blue, and does not round 16 bits to 8. Pages
        of one band each become the bands of one image.
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
    follow_links : bool, default=False
        Whether to follow links that lead out of the folder, too. Otherwise they are listed in ``skipped``.
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
    channels : str or None
        How the images are converted: as given, but "color" or None instead of "auto".
    skipped : list of (Path, str)
        The skipped files, and why each was skipped.

    Examples
    --------
    With photographs in ``holiday`` and its subfolders::

        folder = ImageFolder("holiday", smallest_side=10)
        folder[0]  # (480, 640, 3)
        sample_patches(folder, 10_000, patch_size=10)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        channels: Channels | None = None,
        expected: Expected | None = None,
        smallest_side: int = 1,
        longest_side: int | None = None,
        skip_bad: bool = False,
        follow_links: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        if channels not in (None, "gray", "color", "all", "auto"):
            raise ValueError(f'channels={channels!r}: give "gray", "color", "all", "auto" or None')
        if expected not in (None, "gray", "color") and not (type(expected) is int and expected > 0):
            raise ValueError(f'expected={expected!r}: give "gray", "color", a number of channels or None')
        if smallest_side < 1:
            raise ValueError(f"smallest_side={smallest_side}: give 1 or more pixels")
        if longest_side is not None and longest_side < smallest_side:
            raise ValueError(f"longest_side={longest_side} must be at least smallest_side={smallest_side}, or None")
        require_pillow()
        self._root = existing_folder(path)
        self.channels = self._decoded_to = None if channels == "auto" else channels
        self._longest_side = longest_side
        self._store = _Store(LARGEST_STORE)
        files, outside = _image_files(self._root, follow_links)
        files.sort(key=lambda file: file.relative_to(self._root).as_posix())
        if not files:
            endings = ", ".join(sorted(SUFFIXES))
            links = (
                f"; {len(outside)} links out of the folder are followed with follow_links=True (on the command line, "
                f"--follow-links)"
            )
            raise ValueError(
                f"{self._root} and its sub-folders hold no image files ({endings} or .npy): check the path"
                f"{links if outside else ''}"
            )
        findings = self._look_through(files, smallest_side, progress)
        if channels == "auto" and {1, 3} <= {found.n_channels for found in findings if _is_photograph(found)}:
            self.channels = "color"
            findings = [self._colored(file, found) for file, found in zip(files, findings, strict=True)]
        findings = _of_one_kind(findings, expected)
        found = dict(zip(files, findings, strict=True))
        bad = {file: refusal for file, refusal in found.items() if isinstance(refusal, _Refusal)}
        good = {file: image for file, image in found.items() if not isinstance(image, _Refusal)}
        if bad and not (skip_bad and good):
            raise ValueError(_complaint(self._root, bad, len(files)))
        for file in bad:
            self._store.drop(file)
        self.skipped = [(file, refusal.text) for file, refusal in bad.items()]
        self.skipped += [(file, "a link out of the folder") for file in outside]
        self._set_images(list(good), [image.shape for image in good.values()])
        self._type = next(iter(good.values())).dtype

    def _set_images(self, paths: list[Path], shapes: list[tuple[int, ...]]) -> None:
        self.paths, self.shapes = paths, shapes
        self.names = [file.relative_to(self._root).as_posix() for file in paths]
        self.labels: Labels | None = None
        self.class_names: tuple[str, ...] | None = None
        if all("/" in name for name in self.names):
            classes, labels = np.unique([name.split("/")[0] for name in self.names], return_inverse=True)
            self.labels, self.class_names = labels.astype(np.int64), tuple(map(str, classes))

    def _look_through(
        self, files: list[Path], smallest_side: int, progress: Callable[[str, int, int], None] | None
    ) -> list[_Found | _Refusal]:
        """Decode all files; return the properties of each image, or the reason why it cannot be used."""

        def look_at(file: Path) -> _Found | _Refusal:
            try:
                image = decode_image(file, self._decoded_to, self._longest_side)
            except BadImageError as error:
                return _Refusal(str(error))
            if min(image.shape[:2]) < smallest_side:
                return _too_small(image.shape, smallest_side)
            self._store.put(file, image)
            return _Found(image.shape, image.dtype)

        findings: list[_Found | _Refusal] = []
        with ThreadPoolExecutor(max_workers=allowed_threads()) as pool:  # Pillow decodes without the GIL
            for found in pool.map(look_at, files):
                findings.append(found)
                if progress is not None:
                    progress("look through", len(findings), len(files))
        return findings

    def _colored(self, file: Path, found: _Found | _Refusal) -> _Found | _Refusal:
        """Return the properties of a photograph in color. If it is gray and kept, it is converted."""
        if not _is_photograph(found) or found.n_channels == 3:
            return found
        if (gray := self._store.get(file)) is not None:
            self._store.drop(file)
            self._store.put(file, _in_color(gray))
        return _Found((*found.shape, 3), found.dtype)

    def without_small(self, smallest_side: int, *, skip_bad: bool) -> ImageFolder:
        """Return the folder without images of less than this height or width; they are skipped, or raise an error.

        For a limit that depends on the sizes of the images. Otherwise, give ``smallest_side`` when opening the folder.
        """
        small = {
            file: _too_small(shape, smallest_side)
            for file, shape in zip(self.paths, self.shapes, strict=True)
            if min(shape[:2]) < smallest_side
        }
        if not small:
            return self
        if not skip_bad or len(small) == len(self):
            raise ValueError(_complaint(self._root, small, len(self)))
        part = copy.copy(self)
        left = [k for k, file in enumerate(self.paths) if file not in small]
        part._set_images([self.paths[k] for k in left], [self.shapes[k] for k in left])
        part.skipped = [*self.skipped, *((file, refusal.text) for file, refusal in small.items())]
        return part

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, key: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> ImageFolder: ...

    def __getitem__(self, key: int | slice) -> NDArray[Any] | ImageFolder:
        """Return an image as a read-only array, or the images of a slice as a folder with the same classes."""
        if isinstance(key, slice):
            part = copy.copy(self)
            part.paths, part.names, part.shapes = self.paths[key], self.names[key], self.shapes[key]
            part.labels = None if self.labels is None else self.labels[key]
            return part
        path, expected = self.paths[key], self.shapes[key]
        if (kept := self._store.get(path)) is not None:
            return kept
        try:
            image = decode_image(path, self._decoded_to, self._longest_side)
        except BadImageError as error:
            raise OSError(
                f"{path} cannot be read any more, although it could when the folder was opened ({error}): restore it, "
                f"or open the folder again"
            ) from error
        if image.ndim == 2 and self.channels == "color":
            image = _in_color(image)
        if (image.shape, image.dtype) != (expected, self._type):
            raise OSError(
                f"{path} had shape {expected} and values of type {self._type} when the folder was opened, and has "
                f"{image.shape} and {image.dtype} now: restore it, or open the folder again"
            )
        return self._store.put(path, image)

    def __repr__(self) -> str:
        classes = "" if self.class_names is None else f" in {len(self.class_names)} classes"
        return f"<ImageFolder of {len(self)} images{classes}, {len(self.skipped)} files skipped>"


def _image_files(root: Path, follow_links: bool) -> tuple[list[Path], list[Path]]:
    """Return the image files or, if there are none, the arrays; and links out of the folder, which are not followed.

    Beside images, arrays may be something else.
    """
    found: list[Path] = []
    outside: list[Path] = []
    visited: set[str] = set()
    home = os.path.join(os.path.realpath(root), "")

    def leads_out(path: str) -> bool:
        if follow_links or not os.path.islink(path) or os.path.join(os.path.realpath(path), "").startswith(home):
            return False
        outside.append(Path(path))
        return True

    for place, folders, files in os.walk(root, onerror=_cannot_list, followlinks=True):
        real = os.path.realpath(place)
        # Links may form cycles.
        folders[:], files = ([], []) if real in visited else (_shown(folders), _shown(files))
        folders[:] = [name for name in folders if not leads_out(os.path.join(place, name))]
        found += [Path(place, name) for name in files if os.path.splitext(name)[1].lower() in {*SUFFIXES, ".npy"}]
        visited.add(real)
    images = [file for file in found if file.suffix.lower() in SUFFIXES]
    return [file for file in images or found if not leads_out(str(file))], outside


def _shown(names: list[str]) -> list[str]:
    """Return the names that are not hidden, sorted."""
    return sorted(name for name in names if not name.startswith("."))


def _cannot_list(error: OSError) -> None:
    raise OSError(f"the folder {error.filename} cannot be read ({error.strerror}): check its permissions") from error


@dataclass(frozen=True)
class _Found:
    """The properties of an image."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def n_channels(self) -> int:
        return 1 if len(self.shape) == 2 else self.shape[2]


def _is_photograph(found: _Found | _Refusal) -> TypeGuard[_Found]:
    """Return whether an image is gray or color, in bytes."""
    return isinstance(found, _Found) and found.shape[2:] in ((), (3,)) and found.dtype == np.uint8


def _in_color(gray: NDArray[Any]) -> NDArray[Any]:
    return np.repeat(gray[:, :, None], 3, axis=2)


def _too_small(shape: tuple[int, ...], smallest_side: int) -> _Refusal:
    text = f"{shape[0]} x {shape[1]} pixels, but at least {smallest_side} x {smallest_side} are needed"
    return _Refusal(text, too_small=True)


def _of_one_kind(findings: list[_Found | _Refusal], expected: Expected | None) -> list[_Found | _Refusal]:
    """Return the findings, with a reason for each image that is not of the expected or most common kind."""
    good = [found for found in findings if isinstance(found, _Found)]
    counts = Counter((found.n_channels, found.dtype) for found in good)
    needed = _NUMBERS[expected] if isinstance(expected, str) else expected
    # In case of ties, the kind with more channels.
    kinds = [kind for kind in counts if needed in (None, kind[0])]
    wanted = max(kinds, key=lambda kind: (counts[kind], kind[0], kind[1].str), default=None)

    def checked(found: _Found | _Refusal) -> _Found | _Refusal:
        if isinstance(found, _Refusal) or (found.n_channels, found.dtype) == wanted:
            return found
        name = _kind_name(found.n_channels, found.dtype)
        other = (needed, None) if needed is not None and found.n_channels != needed else wanted
        assert other is not None  # this image has a possible kind
        convertible = _is_photograph(found) and other[0] in (1, 3) and other[1] in (None, np.uint8)
        if other[1] is None:
            return _Refusal(f"{name}, but {_kind_name(other[0])} is needed", convertible=convertible)
        return _Refusal(f"{name}, among {counts[other]} {_kind_name(*other)} images", convertible=convertible)

    return [checked(found) for found in findings]


def _kind_name(n_channels: int, dtype: np.dtype[Any] | None = None) -> str:
    """Describe a kind of images: gray, color or 50-channel, with the type unless it is that of photographs."""
    name = {1: "gray", 3: "color"}.get(n_channels, f"{n_channels}-channel")
    return name if dtype in (None, np.uint8) else f"{name} {dtype}"


def _complaint(root: Path, bad: dict[Path, _Refusal], n_files: int) -> str:
    named = [f"{file.relative_to(root).as_posix()}: {refusal.text}" for file, refusal in bad.items()]
    more = f"; and {len(bad) - _N_NAMED} more" if len(bad) > _N_NAMED else ""
    if len(bad) < n_files:
        advice = "repair or remove them, or skip them with skip_bad=True (on the command line, --skip-bad)"
    elif all(refusal.too_small for refusal in bad.values()):
        advice = (
            "no images are left; use larger images, smaller patches or fewer regions (on the command line, a smaller "
            "--patch-size or --grid)"
        )
    else:
        advice = "no images are left; check the path of the folder"
    if any(refusal.convertible for refusal in bad.values()):
        advice += '; channels="color" or channels="gray" converts all images'
    shown = "; ".join(named[:_N_NAMED])
    return f"{len(bad)} of {n_files} image files in {root} cannot be used ({shown}{more}): {advice}"
