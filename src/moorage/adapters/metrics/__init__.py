"""Metrics under kube-scheduler's names, labels and buckets, so that dashboards and alerts made for it work."""
