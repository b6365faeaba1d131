"""The stories: one file per stage of a model's life, and the command line that tells them."""
