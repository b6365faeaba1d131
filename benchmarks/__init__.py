"""This project against what people use today, side by side in one run. Ratios, not seconds, are what carries over."""
