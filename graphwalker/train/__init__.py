"""Training: models, data for the trainers, and thin layers over TRL's trainers."""
