"""Ways to the peers that are not estimators of scikit-learn: what is absent is reported, never required."""
