{{/* Whether a plugin of this pattern is named in a profile; .plugins is a regular expression. */}}
{{- define "moorage.uses" -}}
{{- if regexMatch (printf "\"name\":\"(%s)" .plugins) (toJson (.root.Values.config.scheduler.profiles | default list)) -}}
true
{{- end }}
{{- end }}

{{/* The controllers of pods, which the plugins about workloads read. */}}
{{- define "moorage.rules.workloads" -}}
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
{{- if include "moorage.uses" (dict "root" . "plugins" "ControllerSpread|SpotPlacement|PlacementStrategy") }}
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [list, watch]
{{- end }}
{{- if include "moorage.uses" (dict "root" . "plugins" "PlacementStrategy") }}
- apiGroups: [moorage.dev]
  resources: [placementpolicies]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/* The same and more, for components that apply placement strategies whatever the profile says. */}}
{{- define "moorage.rules.controllers" -}}
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [list, watch]
- apiGroups: [moorage.dev]
  resources: [placementpolicies]
  verbs: [list, watch]
{{- end }}

{{/* The kinds of workloads that are gangs without a PodGroup: name in the configuration, API group, plural. */}}
{{- define "moorage.workloadKinds" -}}
AppWrapper: [workload.codeflare.dev, appwrappers]
JAXJob: [kubeflow.org, jaxjobs]
Job.batch.volcano.sh: [batch.volcano.sh, jobs]
JobSet: [jobset.x-k8s.io, jobsets]
LeaderWorkerSet: [leaderworkerset.x-k8s.io, leaderworkersets]
MPIJob: [kubeflow.org, mpijobs]
PaddleJob: [kubeflow.org, paddlejobs]
PyTorchJob: [kubeflow.org, pytorchjobs]
RayCluster: [ray.io, rayclusters]
RayJob: [ray.io, rayjobs]
RayService: [ray.io, rayservices]
Revision: [serving.knative.dev, revisions]
SparkApplication: [sparkoperator.k8s.io, sparkapplications]
TFJob: [kubeflow.org, tfjobs]
TrainJob: [trainer.kubeflow.org, trainjobs]
XGBoostJob: [kubeflow.org, xgboostjobs]
{{- end }}

{{/* Those of them that a profile does not switch off, and those that one adds. */}}
{{- define "moorage.rules.workloadKinds" -}}
{{- $on := dict }}
{{- $table := fromYaml (include "moorage.workloadKinds" .) }}
{{- range .Values.config.scheduler.profiles | default (list dict) }}
{{- $args := dict }}
{{- range .pluginConfig | default list }}
{{- if eq .name "GangScheduling" }}
{{- $args = (.args | default dict).workloadKinds | default dict }}
{{- end }}
{{- end }}
{{- $off := $args.disabled | default list }}
{{- range $name, $where := $table }}
{{- if not (or (has $name $off) (has "*" $off)) }}
{{- $_ := set $on $name $where }}
{{- end }}
{{- end }}
{{- range $args.own | default list }}
{{- $group := regexReplaceAll "/.*" .apiVersion "" }}
{{- $_ := set $on (printf "%s.%s" .kind $group) (list $group (.plural | default (printf "%ss" (lower .kind)))) }}
{{- end }}
{{- end }}
{{- range $name, $where := $on }}
- apiGroups: [{{ index $where 0 }}]
  resources: [{{ index $where 1 }}]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/* Whether gangs of a profile may ask autoscalers for nodes. */}}
{{- define "moorage.provisions" -}}
{{- range .Values.config.scheduler.profiles | default (list dict) }}
{{- $class := "default" }}
{{- range .pluginConfig | default list }}
{{- if eq .name "GangScheduling" }}
{{- $class = dig "provisioningClass" "default" (.args | default dict) }}
{{- end }}
{{- end }}
{{- if $class }}true{{ end }}
{{- end }}
{{- end }}

{{/* What a whole profile reads, beside pods, nodes, workloads, and what system:volume-scheduler lets it read. */}}
{{- define "moorage.rules.profile" -}}
- apiGroups: [""]
  resources: [namespaces, services]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [csidrivers, csinodes, csistoragecapacities, volumeattachments]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups, priorityclasses]
  verbs: [list, watch]
- apiGroups: [scheduling.x-k8s.io, scheduling.run.ai, scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [list, watch]
- apiGroups: [scheduler.grove.io]
  resources: [podgangs]
  verbs: [list, watch]
{{- include "moorage.rules.workloadKinds" . }}
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: [list, watch]
- apiGroups: [karpenter.sh]
  resources: [nodeclaims]
  verbs: [list, watch]
- apiGroups: [moorage.dev, scheduling.run.ai, scheduling.volcano.sh]
  resources: [queues]
  verbs: [list, watch]
- apiGroups: [moorage.dev, kueue.x-k8s.io, kai.scheduler]
  resources: [topologies]
  verbs: [list, watch]
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, devicetaintrules, resourceclaims, resourceslices]
  verbs: [list, watch]
{{- end }}

{{/* The read-only part of system:volume-scheduler, for components that place no pods. */}}
{{- define "moorage.rules.volumes" -}}
- apiGroups: [""]
  resources: [persistentvolumeclaims, persistentvolumes]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list, watch]
{{- end }}

{{- define "moorage.rules.events" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* For those whose events never happen twice: no series has to be counted. */}}
{{- define "moorage.rules.singleEvents" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* ClusterRole and its binding; .rules is YAML. */}}
{{- define "moorage.clusterRole" -}}
{{- $name := include "moorage.componentName" . }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
  {{- with index .root.Values.rbac.extraRules .component }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
---
{{ include "moorage.clusterRoleBinding" (merge (dict "name" $name "role" $name) .) }}
{{- end }}

{{- define "moorage.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "moorage.serviceAccountName" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Role and its binding in one namespace; .rules is YAML, .suffix is added to the component's name. */}}
{{- define "moorage.role" -}}
{{- $name := printf "%s%s" (include "moorage.componentName" .) (.suffix | default "") }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "moorage.serviceAccountName" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* The rights to take part in an election; .election is the leaderElection. */}}
{{- define "moorage.leaseRole" -}}
{{- $rules := include "moorage.rules.lease" .election.resourceName }}
{{- include "moorage.role" (merge (dict "namespace" .election.resourceNamespace "rules" $rules) .) }}
{{- end }}

{{- define "moorage.rules.lease" -}}
# A lease that does not exist yet has no name that could be given here.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, list, watch, update]
{{- end }}
