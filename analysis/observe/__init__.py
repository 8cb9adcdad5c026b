"""Vision models look at stored images, and what they saw is stored beside them."""
