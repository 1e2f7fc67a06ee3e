// Empty: no program of a control plane imports this module, and not every release of it can be downloaded.
module k8s.io/sample-controller

go 1.20
