"""The codes at all positions of images, which ``transform`` pools."""

import numpy as np

from epls.images.coder import dense_encoders


def code_maps(coder, images):
    """Yield the codes (rows, columns, n_codes) of each image."""
    encoder = dense_encoders(coder, exact=True)()
    for image in images:
        rows, columns = coder.geometry.positions(*image.shape[:2])
        codes = np.empty((rows * columns, coder.n_codes), np.float32)

        def see(first, positions, found, codes=codes):
            codes[positions, first : first + found.shape[1]] = found

        encoder.encode(np.ascontiguousarray(image), 1, False, see)
        yield codes.reshape(rows, columns, -1)
