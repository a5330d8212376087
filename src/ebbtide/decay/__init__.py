"""The mathematics of forgetting: curves, segments, rules and their instants. Pure functions of facts and as_of."""
