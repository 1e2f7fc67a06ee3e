"""Answers a stock kube-scheduler over HTTP, in the protocol of scheduler extenders (v1)."""
