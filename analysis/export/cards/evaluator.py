"""What a record says of who evaluated, where the run does not."""

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")  # to the model, by Every Eval Ever
NOT_STATED = "not stated"
