"""What a run's folder shows: the stage table for the console, and one HTML page."""
