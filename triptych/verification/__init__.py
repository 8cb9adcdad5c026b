"""What ``triptych verify`` does: compares what is read of a model with what the model itself computes."""
