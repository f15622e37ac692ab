"""The codes at all positions of an image, which the library never keeps."""

import numpy as np

from epls.images.coder import dense_encoders


def code_map(coder, image):
    """Codes (rows, columns, n_codes) of all groups, as an exact encoder shows them."""
    image = np.atleast_3d(image)
    shape = coder.geometry.positions(*image.shape[:2]).shape
    codes = np.full((shape[0] * shape[1], coder.n_codes), np.nan, np.float32)

    def see(first, positions, found):
        codes[positions, first : first + found.shape[1]] = found

    dense_encoders(coder, exact=True)().encode(image, 1, False, see)
    return codes.reshape(*shape, -1)
