"""Groups of given sizes: assignments with limits, and k-means based on them."""
