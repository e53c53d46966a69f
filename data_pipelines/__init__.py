"""Questions and trajectories from knowledge graphs and published data sets."""
