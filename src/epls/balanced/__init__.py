"""Groups of given sizes: assignments with limits, and the k-means that is made of them."""
