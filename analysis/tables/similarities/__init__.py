"""Tables of similarities within triplets: disparity, gap, and what the gap depends on."""
