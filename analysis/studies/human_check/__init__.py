"""People look at some images: how far the detector agrees with them."""
