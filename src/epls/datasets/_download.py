"""Files and archives of data sets, downloaded on request. This needs pooch."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from ..utils.files import atomic_file
from ._files import checked_folder


def target_folder(folder: str | os.PathLike[str], *, download: bool) -> Path:
    """Return the folder as a path, after checking that it is one; a folder to download to may be missing."""
    path = Path(folder).expanduser()
    return path if download and not path.exists() else checked_folder(path)


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set, published by its authors or others.

    Attributes
    ----------
    title : str
        The name of the data set.
    url, md5 : str
        The address of the file, and its checksum.
    """

    title: str
    url: str
    md5: str

    _by_hand: ClassVar[str] = "put"  # what a user without pooch does with the file

    @property
    def name(self) -> str:
        """The name of the file."""
        return PurePosixPath(self.url).name

    def fetch(self, folder: Path, then: Callable[[Path], None] = lambda path: None) -> None:
        """Download the file to a folder, unless it exists with the right checksum, and process it."""
        try:
            import pooch
        except ImportError as error:
            raise ImportError(
                f'downloading needs pooch: pip install "epls[data]"; or {self._by_hand} {self.url} in {folder} by hand'
            ) from error
        try:
            # pooch writes to a temporary file and renames it if the checksum is right.
            pooch.retrieve(self.url, known_hash=f"md5:{self.md5}", fname=self.name, path=folder)
            then(folder / self.name)
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:
            raise OSError(
                f"{self.title} could not be downloaded from {self.url} to {folder} ({error}): try again later, or "
                f"download it another way, {self._by_hand} it in {folder} and load it without download"
            ) from error


@dataclass(frozen=True)
class Archive(RemoteFile):
    """The official archive of a data set.

    Attributes
    ----------
    title, url, md5 : str
        See :class:`RemoteFile`.
    folder : str
        The folder that it unpacks to.
    files : tuple of str
        The files in that folder.
    """

    folder: str
    files: tuple[str, ...]

    _by_hand: ClassVar[str] = "unpack"

    @property
    def advice(self) -> str:
        """Advice about a missing or damaged file."""
        return f"unpack {self.url} again, or delete the file if it exists and load with download=True"

    def locate(self, folder: str | os.PathLike[str], *, download: bool) -> Path:
        """Return the folder of the files: ``folder`` or the one in it. Download missing files if requested."""
        named = target_folder(folder, download=download)
        is_itself = named.name == self.folder or any((named / name).exists() for name in self.files)
        home = named if is_itself and not (named / self.folder).is_dir() else named / self.folder
        if download and not all((home / name).exists() for name in self.files):
            self._fetch_and_unpack(named, home)
        if not home.is_dir():
            raise FileNotFoundError(
                f"{named} holds neither a folder {self.folder} nor its files ({', '.join(self.files)}): give the "
                f"folder that {self.title} was unpacked to, unpack {self.url} there, or load with download=True"
            )
        return home

    def _fetch_and_unpack(self, named: Path, home: Path) -> None:
        packed = named / self.name
        was_there = packed.exists()
        self.fetch(named, lambda path: self._unpack(path, home))
        if not was_there:
            packed.unlink()  # as large as the data, and not needed any more

    def _unpack(self, packed: Path, home: Path) -> None:
        """Unpack only the missing files of the archive."""
        home.mkdir(parents=True, exist_ok=True)
        with tarfile.open(packed) as archive:
            for member in archive:
                target = home / PurePosixPath(member.name).name
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and target.name in self.files and not target.exists():
                    with atomic_file(target) as file:
                        shutil.copyfileobj(content, file, 1 << 20)
