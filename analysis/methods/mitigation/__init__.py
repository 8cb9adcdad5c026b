"""A model before and after it was mitigated: does the neutral word lean less, and at what cost?"""
