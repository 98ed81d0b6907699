"""Trained and pretrained models in seats: by name, by folder, with their token ids."""
