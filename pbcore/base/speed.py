"""What more speed may cost in quality."""

MAX_LOSS = 5.0  # points that a fast sampler may lose to the reference, by default
