import pickle
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_bands import cube, tiff
from sklearn.datasets import load_sample_images

from epls.datasets import ImageFolder
from epls.datasets import folder as module

Image = pytest.importorskip("PIL.Image")


def pixels(height, width, *channels, seed=0):
    return np.random.RandomState(seed).randint(256, size=(height, width, *channels)).astype(np.uint8)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


@pytest.fixture
def bad(tmp_path):
    """Three good images of color, and one of each kind of bad file."""
    for k in range(3):
        save(tmp_path / f"good{k}.png", pixels(9 + k, 9, 3, seed=k))
    save(tmp_path / "gray.png", pixels(9, 9))
    save(tmp_path / "small.png", pixels(9, 4, 3))
    (tmp_path / "text.png").write_text("no image")
    whole = save(tmp_path / "cut.jpg", pixels(90, 90, 3)).read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[:2000])
    return tmp_path


def test_images_of_any_size_in_the_order_of_their_names(tmp_path):
    arrays = {
        "b/ü ñ.PNG": pixels(4, 6, 3),
        "a.tif": pixels(7, 3, 3),
        "b/c/d.bmp": pixels(5, 5, 3),
        "日本.png": pixels(2, 2, 3),
    }
    for name, array in arrays.items():
        save(tmp_path / name, array)
    folder = ImageFolder(str(tmp_path))
    assert folder.names == sorted(arrays)
    assert folder.paths == [tmp_path / name for name in folder.names]
    assert folder.shapes == [arrays[name].shape for name in folder.names]
    assert len(folder) == 4
    assert folder.skipped == []
    assert folder.labels is folder.class_names is None  # a.tif is in no sub-folder
    for image, name in zip(folder, folder.names, strict=True):
        np.testing.assert_array_equal(image, arrays[name])
    np.testing.assert_array_equal(folder[np.int64(-1)], arrays["日本.png"])
    with pytest.raises(IndexError):
        folder[4]


def test_what_is_not_an_image_is_passed_over(tmp_path):
    save(tmp_path / "a.png", pixels(3, 3))
    save(tmp_path / ".hidden.png", pixels(3, 3))
    save(tmp_path / ".hidden" / "b.png", pixels(3, 3))
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "folder.png").mkdir()
    assert ImageFolder(tmp_path).names == ["a.png"]


def test_a_hidden_folder_may_be_asked_for(tmp_path):
    save(tmp_path / ".cache" / "a.png", pixels(3, 3))
    assert ImageFolder(tmp_path / ".cache").names == ["a.png"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    save(tmp_path / "store" / "a.png", pixels(3, 3))
    folder = tmp_path / "folder"
    folder.mkdir()
    try:
        (folder / "linked").symlink_to(tmp_path / "store", target_is_directory=True)
        (tmp_path / "store" / "back").symlink_to(folder, target_is_directory=True)
    except OSError:
        pytest.skip("no links on this system")
    assert ImageFolder(folder, follow_links=True).names == ["linked/a.png"]
    with pytest.raises(
        ValueError, match=r"no image files .*; 1 links out of the folder are followed with follow_links"
    ):
        ImageFolder(folder)


def test_links_out_of_a_folder_are_skipped_and_listed(tmp_path):
    folder = tmp_path / "folder"
    save(folder / "mine" / "a.png", pixels(3, 3))
    save(tmp_path / "private" / "b.png", pixels(3, 3))
    save(tmp_path / "folder2" / "c.png", pixels(3, 3))  # begins with the name of the folder
    try:
        for name, target in (("up", ".."), ("other", "../private"), ("again", "mine"), ("near", "../folder2")):
            (folder / name).symlink_to(target, target_is_directory=True)
        (folder / "b.png").symlink_to("../private/b.png")
        (folder / "d.png").symlink_to("mine/a.png")
        (folder / "note.txt").symlink_to("../private/b.png")
    except OSError:
        pytest.skip("no links on this system")
    found = ImageFolder(folder)
    assert found.names == ["again/a.png", "d.png"]  # a folder that is linked is visited once
    skipped = {file.relative_to(folder).as_posix(): reason for file, reason in found.skipped}
    assert skipped == dict.fromkeys(["b.png", "near", "other", "up"], "a link out of the folder")
    assert "other/b.png" in ImageFolder(folder, follow_links=True).names


def test_classes_are_sub_folders(tmp_path):
    for name in ("dog/1.png", "cat/deep/er/2.png", "cat/3.png", "emu/4.png"):
        save(tmp_path / name, pixels(3, 3))
    folder = ImageFolder(tmp_path)
    assert folder.names == ["cat/3.png", "cat/deep/er/2.png", "dog/1.png", "emu/4.png"]
    assert folder.class_names == ("cat", "dog", "emu")
    np.testing.assert_array_equal(folder.labels, [0, 0, 1, 2])
    assert folder.labels.dtype == np.int64
    assert repr(folder) == "<ImageFolder of 4 images in 3 classes, 0 files skipped>"


def test_slices_are_folders_with_the_same_classes(tmp_path):
    for k in range(4):
        save(tmp_path / f"class{k}" / "a.png", pixels(3 + k, 3))
    part = ImageFolder(tmp_path)[1:3]
    assert isinstance(part, ImageFolder)
    assert part.names == ["class1/a.png", "class2/a.png"]
    assert [image.shape for image in part] == part.shapes == [(4, 3), (5, 3)]
    np.testing.assert_array_equal(part.labels, [1, 2])
    assert len(part.class_names) == 4


def test_bad_files_are_all_counted_and_explained(bad):
    with pytest.raises(ValueError, match="4 of 7 image files") as caught:
        ImageFolder(bad, smallest_side=5)
    message = str(caught.value)
    for part in (
        "cut.jpg: image file is truncated",
        "gray.png: gray, among 3 color images",
        "small.png: 9 x 4 pixels, but at least 5 x 5 are needed",
        "text.png: not an image",
        "skip_bad=True",
        "--skip-bad",
        'channels="color"',
        str(bad),
    ):
        assert part in message


def test_bad_files_can_be_skipped(bad):
    folder = ImageFolder(bad, smallest_side=5, skip_bad=True)
    assert folder.names == ["good0.png", "good1.png", "good2.png"]
    assert [path.name for path, _ in folder.skipped] == ["cut.jpg", "gray.png", "small.png", "text.png"]
    assert all(isinstance(path, Path) and reason for path, reason in folder.skipped)
    assert "4 files skipped" in repr(folder)


def test_only_a_few_bad_files_are_named(tmp_path):
    save(tmp_path / "good.png", pixels(3, 3))
    for k in range(8):
        (tmp_path / f"bad{k}.png").touch()
    with pytest.raises(ValueError, match=r"8 of 9 .*bad4\.png: .*; and 3 more") as caught:
        ImageFolder(tmp_path)
    assert "bad5.png" not in str(caught.value)
    assert "channels" not in str(caught.value)


@pytest.mark.parametrize(("channels", "shape"), [("gray", (9, 9)), ("color", (9, 9, 3))])
def test_conversion_leaves_no_mixture(bad, channels, shape):
    folder = ImageFolder(bad, channels=channels, smallest_side=5, skip_bad=True)
    assert folder.names == ["good0.png", "good1.png", "good2.png", "gray.png"]
    assert folder[3].shape == folder.shapes[3] == shape
    np.testing.assert_array_equal(folder[3].reshape(9, 9, -1)[:, :, 0], pixels(9, 9))


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_the_majority_stays(tmp_path_factory, are_gray):
    home = tmp_path_factory.mktemp("mixed")
    for k, is_gray in enumerate(are_gray):
        save(home / f"{k}.png", pixels(2, 2) if is_gray else pixels(2, 2, 3))
    folder = ImageFolder(home, skip_bad=True)
    gray_stays = 2 * sum(are_gray) > len(are_gray)
    assert folder.names == [f"{k}.png" for k, is_gray in enumerate(are_gray) if is_gray == gray_stays]
    assert len(folder) + len(folder.skipped) == len(are_gray)
    assert {image.ndim for image in folder} == {2 if gray_stays else 3}


def test_folders_without_images(tmp_path):
    with pytest.raises(ValueError, match=r"hold no image files \(\.bmp, "):
        ImageFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nothing"):
        ImageFolder(tmp_path / "nothing")
    with pytest.raises(NotADirectoryError, match=r"a\.png is a file"):
        ImageFolder(save(tmp_path / "a.png", pixels(3, 3)))
    with pytest.raises(
        ValueError,
        match=r"1 of 1 .*a\.png: 3 x 3 pixels.*no images are left; use larger images.* --patch-size or --grid",
    ):
        ImageFolder(tmp_path, smallest_side=4, skip_bad=True)


def test_a_file_that_changes_after_the_start_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_STORE", 0)
    path = save(tmp_path / "a.png", pixels(3, 3))
    folder = ImageFolder(tmp_path)
    save(path, pixels(3, 4))
    with pytest.raises(OSError, match=r"a\.png had shape \(3, 3\) .* and has \(3, 4\) and uint8 now"):
        folder[0]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(OSError, match=r"a\.png cannot be read any more, although it could when the folder was opened"):
        folder[0]
    path.unlink()
    with pytest.raises(OSError, match=r"a\.png .*No such file"):
        folder[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": "rgb"}, "channels='rgb': give"),
        ({"smallest_side": 0}, "smallest_side=0: give 1 or more"),
        ({"expected": 0}, "expected=0: give"),
        ({"expected": "blue"}, "expected=.blue.: give"),
    ],
)
def test_settings_are_checked(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        ImageFolder(tmp_path, **settings)


def test_without_pillow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "epls\[images\]"'):
        ImageFolder(tmp_path)


def test_large_images_are_shrunk(tmp_path):
    """As Pillow does it by hand, sides in proportion; small ones stay, and those on their side are turned."""
    photograph = load_sample_images().images[0]
    Image.fromarray(photograph).save(tmp_path / "a.png")
    Image.fromarray(photograph).save(tmp_path / "b.jpg", quality=95)
    Image.fromarray(photograph[:30, :40]).save(tmp_path / "c.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(photograph).save(tmp_path / "d.jpg", exif=exif)
    folder = ImageFolder(tmp_path, longest_side=80)
    assert folder.shapes == [(53, 80, 3), (53, 80, 3), (30, 40, 3), (80, 53, 3)]
    by_hand = np.asarray(Image.fromarray(photograph).resize((80, 53), Image.Resampling.LANCZOS), float)
    np.testing.assert_array_equal(folder[0], by_hand)
    assert np.abs(folder[1] - by_hand).mean() < 6
    np.testing.assert_array_equal(folder[2], photograph[:30, :40])
    with pytest.raises(ValueError, match="longest_side=5 must be at least smallest_side=10"):
        ImageFolder(tmp_path, smallest_side=10, longest_side=5)


def test_npy_images_of_mixed_sizes(tmp_path, monkeypatch):
    arrays = {"a/1.npy": cube(8, 9, 50), "a/2.NPY": cube(7, 12, 50), "b/3.npy": cube(30, 5, 50)}
    for name, array in arrays.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            np.save(file, array)
    folder = ImageFolder(tmp_path)
    assert folder.names == list(arrays)
    assert folder.shapes == [array.shape for array in arrays.values()]
    assert folder.class_names == ("a", "b")
    for image, array in zip(folder, arrays.values(), strict=True):
        np.testing.assert_array_equal(image, array)
        assert image.dtype == np.uint16
    monkeypatch.setattr(module, "LARGEST_STORE", 0)
    folder = ImageFolder(tmp_path)
    np.save(tmp_path / "a" / "1.npy", arrays["a/1.npy"].astype(np.int32))
    with pytest.raises(OSError, match=r"1\.npy had .* values of type uint16 .* and int32 now"):
        folder[0]


def test_arrays_beside_photographs_are_passed_over(tmp_path):
    save(tmp_path / "photo.png", pixels(9, 9, 3))
    np.save(tmp_path / "features.npy", np.zeros((5, 6, 7)))
    folder = ImageFolder(tmp_path)
    assert folder.names == ["photo.png"]
    assert folder.skipped == []


def test_one_number_of_channels_and_one_type(tmp_path):
    for k in range(3):
        np.save(tmp_path / f"good{k}.npy", cube(9, 9, 50))
    np.save(tmp_path / "fewer.npy", cube(9, 9, 49))
    np.save(tmp_path / "other.npy", cube(9, 9, 50, np.uint8))
    np.save(tmp_path / "gray.npy", cube(9, 9, 1))
    with pytest.raises(ValueError, match=r"3 of 6 image files") as caught:
        ImageFolder(tmp_path)
    for part in (
        "fewer.npy: 49-channel uint16, among 3 50-channel uint16 images",
        "other.npy: 50-channel, among 3 50-channel uint16 images",
        "gray.npy: gray uint16, among 3 50-channel uint16 images",
    ):
        assert part in str(caught.value)
    assert 'channels="color"' not in str(caught.value)
    assert ImageFolder(tmp_path, skip_bad=True).names == ["good0.npy", "good1.npy", "good2.npy"]
    only = ImageFolder(tmp_path, skip_bad=True, expected=49)
    assert only.names == ["fewer.npy"]
    assert (tmp_path / "gray.npy", "gray uint16, but 49-channel is needed") in only.skipped
    with pytest.raises(ValueError, match=r"6 of 6 .*but 7-channel is needed.*no images are left"):
        ImageFolder(tmp_path, expected=7)


def test_all_bands_of_tiff_files_if_asked_for(tmp_path):
    """Near infrared after red, green and blue, which is taken for transparency otherwise."""
    image = cube(9, 8, 4, np.uint8)
    (tmp_path / "a.tif").write_bytes(tiff(image, photometric="rgb", extrasamples=[0]))
    np.testing.assert_array_equal(ImageFolder(tmp_path)[0], image[:, :, :3])
    np.testing.assert_array_equal(ImageFolder(tmp_path, channels="all")[0], image)
    save(tmp_path / "b.png", pixels(9, 8, 3))
    with pytest.raises(ValueError, match=r"b\.png: color, but 4-channel is needed"):
        ImageFolder(tmp_path, channels="all", expected=4)


@pytest.fixture
def decodes(monkeypatch):
    """How often each file is decoded."""
    counts = Counter()
    decode_image = module.decode_image

    def counted(path, *settings):
        counts[path.name] += 1
        return decode_image(path, *settings)

    monkeypatch.setattr(module, "decode_image", counted)
    return counts


def test_images_are_decoded_once_as_far_as_memory_allows(tmp_path, monkeypatch, decodes):
    arrays = {f"{k}.png": pixels(10, 10, 3, seed=k) for k in range(5)}
    for name, array in arrays.items():
        save(tmp_path / name, array)
    monkeypatch.setattr(module, "LARGEST_STORE", 3 * 300 + 299)  # three images
    folder = ImageFolder(tmp_path)
    assert set(decodes.values()) == {1}
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k: folder[k % 5], range(20)))
        for k, image in enumerate(found):
            np.testing.assert_array_equal(image, arrays[f"{k % 5}.png"])
    assert sorted(decodes.values()) == [1, 1, 1, 9, 9]
    assert folder[1:][0] is folder[1]  # parts of a folder share what is kept


def test_images_cannot_be_written_whether_kept_or_not(tmp_path, monkeypatch):
    save(tmp_path / "a.png", pixels(3, 3))
    for n_bytes in (0, 9):
        monkeypatch.setattr(module, "LARGEST_STORE", n_bytes)
        with pytest.raises(ValueError, match="read-only"):
            ImageFolder(tmp_path)[0][0, 0] = 1


def test_skipped_images_leave_room_for_others(tmp_path, monkeypatch, decodes):
    save(tmp_path / "0.png", pixels(9, 9))
    for k in (1, 2):
        save(tmp_path / f"{k}.png", pixels(9, 9, 3))
    monkeypatch.setattr(module, "LARGEST_STORE", 2 * 9 * 9 * 3)
    folder = ImageFolder(tmp_path, skip_bad=True)
    for _ in range(3):
        assert len(list(folder)) == 2
    assert max(decodes.values()) <= 2


def test_other_processes_decode_for_themselves(tmp_path):
    save(tmp_path / "a.png", np.zeros((500, 500), np.uint8))
    sent = pickle.dumps(ImageFolder(tmp_path))
    assert len(sent) < 5_000
    np.testing.assert_array_equal(pickle.loads(sent)[0], np.zeros((500, 500)))


@pytest.mark.parametrize("kept", [0, 2**20])
def test_a_mixture_becomes_color_without_decoding_again(tmp_path, monkeypatch, decodes, kept):
    monkeypatch.setattr(module, "LARGEST_STORE", kept)
    for k in range(3):
        save(tmp_path / f"{k}.png", pixels(40, 30, seed=k) if k else pixels(40, 30, 3))
    folder = ImageFolder(tmp_path, channels="auto", longest_side=20)
    assert folder.channels == "color"
    assert folder.shapes == [(20, 15, 3)] * 3
    assert set(decodes.values()) == {1}
    converted = ImageFolder(tmp_path, channels="color", longest_side=20)
    for image, by_pillow in zip(folder, converted, strict=True):
        np.testing.assert_array_equal(image, by_pillow)
    (tmp_path / "0.png").unlink()
    gray = ImageFolder(tmp_path, channels="auto")
    assert gray.channels is None
    assert gray.shapes == [(40, 30)] * 2


def test_a_mixture_of_channels_is_not_converted(tmp_path):
    for k, n_channels in enumerate((1, 3, 3)):
        np.save(tmp_path / f"{k}.npy", cube(9, 9, n_channels, np.uint8))
    with pytest.raises(ValueError, match=r"0\.npy: gray, among 2 color images"):
        ImageFolder(tmp_path, channels="auto")


def test_small_images_can_be_left_out_later(tmp_path):
    for k, side in enumerate((9, 4, 8)):
        save(tmp_path / f"class{k}" / "a.png", pixels(side, 9))
    folder = ImageFolder(tmp_path)
    assert folder.without_small(4, skip_bad=False) is folder
    with pytest.raises(ValueError, match=r"1 of 3 .*class1/a\.png: 4 x 9 pixels, but at least 5 x 5 .*--skip-bad"):
        folder.without_small(5, skip_bad=False)
    part = folder.without_small(5, skip_bad=True)
    assert part.names == ["class0/a.png", "class2/a.png"]
    assert part.class_names == ("class0", "class2")
    assert part.skipped == [(tmp_path / "class1" / "a.png", "4 x 9 pixels, but at least 5 x 5 are needed")]
    assert [image.shape for image in part] == part.shapes == [(9, 9), (8, 9)]
    with pytest.raises(ValueError, match=r"3 of 3 .*no images are left; use larger images"):
        folder.without_small(10, skip_bad=True)
