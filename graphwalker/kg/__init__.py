"""Knowledge graphs: schema profiles, stores and how they are built."""
