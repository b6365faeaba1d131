"""The stages: one file per stage or system touched. The only floor that touches disk, network, Prefect, MLflow."""
